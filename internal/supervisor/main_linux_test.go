package supervisor

import (
	"bufio"
	"context"
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
	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// roleVar is the variable that makes this test binary play an agent.
const roleVar = "SUPERVISOR_TEST_ROLE"

// relayVar makes a server of these tests show its descriptors; see hide.
const relayVar = "SUPERVISOR_TEST_RELAY"

func TestMain(m *testing.M) {
	Main()
	if role := os.Getenv(roleVar); role != "" {
		play(role, os.Args[1:])
		os.Exit(0)
	}
	hide(true)
	goleak.VerifyTestMain(m)
}

// hide hides this process's descriptors from other processes, as a server does,
// or shows them. A server that does not hide them has its output relayed.
func hide(hidden bool) {
	dumpable := uintptr(1)
	if hidden {
		dumpable = 0
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0); err != nil {
		panic(err)
	}
}

// bothWays runs a test with an output that this process keeps itself, and
// with one that the supervisor relays.
func bothWays(t *testing.T, f func(t *testing.T)) {
	if !peeks() {
		t.Error("this system does not count what sockets have shown, so all tests run with a relay")
	}
	for name, hidden := range map[string]bool{"kept": true, "relayed": false} {
		t.Run(name, func(t *testing.T) {
			hide(hidden)
			t.Cleanup(func() { hide(true) })
			f(t)
		})
	}
}

func play(role string, args []string) {
	switch role {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "exit":
		code, _ := strconv.Atoi(args[0])
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(code)
	case "flood": // lines, then exit, or repeat what it reads
		n, _ := strconv.Atoi(args[0])
		w := bufio.NewWriter(os.Stdout)
		for i := range n {
			fmt.Fprintf(w, "line %d\n", i)
		}
		_ = w.Flush()
		if len(args) > 1 {
			_, _ = io.Copy(os.Stdout, os.Stdin)
		}
	case "ticker": // prints a line with a number for each line that it reads
		in := bufio.NewScanner(os.Stdin)
		for i := 0; in.Scan(); i++ {
			fmt.Printf("%d %s\n", i, in.Text())
		}
	case "deaf":
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("ready", os.Getpid())
		<-time.After(lifetime)
	case "stubborn": // continues after an interruption
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		fmt.Println("ready", os.Getpid())
		<-interrupted
		fmt.Println("interrupted")
		<-time.After(lifetime)
	case "launcher": // lets another process do its work
		self, _ := os.Executable()
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleVar+"=worker")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		_ = cmd.Run()
	case "worker": // says when its input ends
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("end of input")
		<-time.After(lifetime)
	case "zoo":
		zoo()
	default:
		playHere(role, args)
	}
}

// lifetime is longer than any test. A role whose test was killed ends after it.
const lifetime = 90 * time.Second

func roleCommand(role string, args ...string) proc.Command {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return proc.Command{
		Path: self, Args: args, Mark: "SUPERVISOR_TEST_" + proc.MarkSuffix,
		Env: []string{roleVar + "=" + role, "GORACE=atexit_sleep_ms=0"},
	}
}

func start(t testing.TB, c proc.Command, k Takeover) Agent {
	t.Helper()
	a, err := Start(t.Context(), c, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background(), proc.Now); err != nil {
			t.Error(err)
		}
	})
	return a
}

func wait(t testing.TB, a Agent) proc.ExitStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := a.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// readLine reads one line byte by byte, so that it reads nothing after the
// line.
func readLine(t testing.TB, r io.Reader) string {
	t.Helper()
	var line strings.Builder
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("after %q: %v", line.String(), err)
		}
		if b[0] == '\n' {
			return line.String()
		}
		line.WriteByte(b[0])
	}
}

// until polls cond, which must become true soon.
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
