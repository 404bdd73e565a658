package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVar is the variable that makes this test binary play a child. Its value
// is the child's role.
const roleVar = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

// play plays a role that works on every system. playHere plays the other roles.
func play(role string, args []string) {
	switch role {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
	case "lines": // prints count lines
		out := bufio.NewWriter(os.Stdout)
		count, _ := strconv.Atoi(args[0])
		for i := range count {
			fmt.Fprintf(out, "line %d\n", i)
		}
		out.Flush()
	case "stderr": // prints MiB on standard error
		mib, _ := strconv.Atoi(args[0])
		for range mib {
			os.Stderr.Write(bytes.Repeat([]byte("0123456789abcde\n"), 1<<16))
		}
		fmt.Fprint(os.Stderr, "the end")
	case "say": // prints a text on standard error
		fmt.Fprint(os.Stderr, args[0])
	case "environ":
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
	case "where":
		dir, _ := os.Getwd()
		fmt.Println(dir)
	case "deaf": // ignores every signal that it can ignore
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		ready()
		forever()
	case "listener": // prints the signals that it receives
		heard := make(chan os.Signal, 8)
		signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
		ready()
		for s := range heard {
			fmt.Println(s)
		}
	case "polite": // exits at an interrupt
		heard := make(chan os.Signal, 8)
		signal.Notify(heard, os.Interrupt)
		ready()
		<-heard
		fmt.Println("goodbye")
	case "block": // runs without doing anything
		ready()
		forever()
	default:
		playHere(role, args)
	}
}

func ready() { fmt.Println("ready", os.Getpid()) }

// forever waits longer than any test. A role whose test was killed ends after
// it.
func forever() { <-time.After(lifetime) }

const lifetime = 90 * time.Second

// respawn starts this binary in another role, with the stdout of this role.
func respawn(attr *syscall.SysProcAttr, role string, args ...string) *exec.Cmd {
	cmd := inRole(attr, role, args...)
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// inRole returns the command that plays a role. The caller starts it.
func inRole(attr *syscall.SysProcAttr, role string, args ...string) *exec.Cmd {
	cmd := exec.Command(self(), args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.SysProcAttr = attr
	cmd.Stdout = os.Stdout
	if strings.HasSuffix(role, "with all") {
		cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	}
	return cmd
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func command(role string, args ...string) Command {
	return Command{Path: self(), Args: args, Env: []string{
		roleVar + "=" + role,
		"GORACE=atexit_sleep_ms=0", // under the race detector a child would take a second to exit
	}}
}

func start(t testing.TB, c Command) *Process {
	t.Helper()
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), Now); err != nil {
			t.Error(err)
		}
	})
	return p
}

// wait returns the exit status of p. p must end within a minute.
func wait(t testing.TB, p *Process) ExitStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func stop(t testing.TB, p *Process, l Ladder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx, l); err != nil {
		t.Fatal(err)
	}
}

// awaitReady waits until count processes of the tree have printed that they are
// ready. It returns their process ids.
func awaitReady(t testing.TB, p *Process, count int) []int {
	t.Helper()
	return readReady(t, p, p.Stdout(), count)
}

// readReady is awaitReady for another reader of the output.
func readReady(t testing.TB, p *Process, stdout io.Reader, count int) []int {
	t.Helper()
	var pids []int
	var line []byte
	for b := make([]byte, 1); len(pids) < count; {
		if _, err := stdout.Read(b); err != nil {
			t.Fatalf("%d of %d ready, then %v; stderr: %s", len(pids), count, err, p.StderrTail())
		}
		if line = append(line, b[0]); b[0] != '\n' {
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "ready ")
		pid, err := strconv.Atoi(rest)
		if !ok || err != nil {
			t.Fatalf("unexpected line %q", line)
		}
		pids, line = append(pids, pid), nil
	}
	return pids
}

// until polls cond until it is true. It fails the test after a minute.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func startError(t *testing.T, err error) *StartError {
	t.Helper()
	start, ok := errors.AsType[*StartError](err)
	if !ok {
		t.Fatalf("error is %v, not a StartError", err)
	}
	return start
}
