//go:build unix

package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/testload"
)

var newSession = &syscall.SysProcAttr{Setsid: true}

// playUnix plays the roles that work on every Unix. It returns false if it does
// not know the role.
func playUnix(role string, args []string) bool {
	switch role {
	case "leave": // exits and leaves a descendant that holds the output open
		respawn(nil, "deaf")
	case "leave in session":
		respawn(newSession, "deaf")
	case "fork away with all":
		if len(args) > 0 {
			os.Stdin.Read(make([]byte, 1)) // wait until the test has written
			forkAwayWithAll()
			return true
		}
		ready()
		_ = os.NewFile(3, "begun").Close()
		forever()
	case "leave a late talker":
		respawn(nil, "late talker", strconv.Itoa(os.Getpid()))
	case "late talker":
		for strconv.Itoa(os.Getppid()) == args[0] {
			runtime.Gosched()
		}
		fmt.Println("late")
		forever()
	case "fork away": // the role that follows: it has its own session and no parent
		respawn(newSession, args[0], args[1:]...)
	case "signal self":
		die()
	default:
		return false
	}
	return true
}

// forkAwayWithAll starts a process that inherits all pipes, and returns once
// that process has printed that it is ready. Otherwise its line could come
// after the exit of this process, too late to be read.
func forkAwayWithAll() {
	begun, itsEnd, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := inRole(newSession, "fork away with all")
	cmd.ExtraFiles = []*os.File{itsEnd}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_ = itsEnd.Close()
	_, _ = begun.Read(make([]byte, 1))
}

func TestChildThatIgnoresSignalsIsKilled(t *testing.T) {
	p := start(t, command("deaf"))
	awaitReady(t, p, 1)
	stop(t, p, Ladder{Interrupt: 20 * time.Millisecond, Terminate: 20 * time.Millisecond})
	if diff := cmp.Diff(ExitStatus{Code: -1, Signal: "SIGKILL"}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultGracePeriods(t *testing.T) {
	t.Parallel()
	p := start(t, command("listener"))
	awaitReady(t, p, 1)
	begin := time.Now()
	stop(t, p, Ladder{})
	testload.Within(t, "stopping", begin, 5*time.Second)
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("the steps took only %v", took)
	}
	if got, _ := io.ReadAll(p.Stdout()); string(got) != "interrupt\nterminated\n" {
		t.Errorf("it heard %q", got)
	}
}

func TestNoSignalFollowsTheChildsExit(t *testing.T) {
	p := start(t, command("polite"))
	awaitReady(t, p, 1)
	stop(t, p, Ladder{Interrupt: time.Hour})
	if got, _ := io.ReadAll(p.Stdout()); string(got) != "goodbye\n" {
		t.Errorf("it said %q", got)
	}
	if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}

// Several goroutines may stop the same process. Each signal is sent once, and
// the shortest grace period applies.
func TestConcurrentStopsSendEachSignalOnce(t *testing.T) {
	p := start(t, command("listener"))
	awaitReady(t, p, 1)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { stop(t, p, Ladder{Interrupt: 100 * time.Millisecond, Terminate: time.Hour}) })
	}
	var heard []byte
	for b := make([]byte, 64); !strings.Contains(string(heard), "terminated\n"); {
		n, err := p.Stdout().Read(b)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, b[:n]...)
	}
	stop(t, p, Now)
	all.Wait()
	rest, _ := io.ReadAll(p.Stdout())
	if got := string(heard) + string(rest); got != "interrupt\nterminated\n" {
		t.Errorf("it heard %q", got)
	}
}

// Stop returns when its context is cancelled, but the process is still
// signalled and killed.
func TestStopContinuesAfterItsCallerReturns(t *testing.T) {
	p := start(t, command("deaf"))
	awaitReady(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx, Ladder{Interrupt: 10 * time.Millisecond, Terminate: 10 * time.Millisecond}); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
	if got := wait(t, p).Signal; got != "SIGKILL" {
		t.Errorf("ended by %q", got)
	}
}

func TestStdoutHeldByADescendantDoesNotBlockWait(t *testing.T) {
	for _, role := range []string{"leave", "leave in session"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := command(role)
			c.Mark = "PROC_TEST_" + MarkSuffix
			c.Linger = testload.Room(defaultLinger / 4) // in which the descendant has to say that it is ready
			p := start(t, c)
			pid := awaitReady(t, p, 1)[0]
			<-p.exited
			begin := time.Now()
			rest, err := io.ReadAll(p.Stdout()) // blocks at first, because the descendant holds the output open and prints nothing more
			if len(rest) > 0 || err != nil {
				t.Errorf("stdout ended with %q, %v", rest, err)
			}
			status := wait(t, p)
			testload.Within(t, "the end of the output", begin, c.Linger+2*time.Second)
			if diff := cmp.Diff(ExitStatus{StdoutHeld: true, StderrHeld: false}, status); diff != "" {
				t.Error(diff)
			}
			if runtime.GOOS == "linux" && alive(pid) {
				t.Error("the descendant was left behind")
			}
		})
	}
}

// Output that a descendant prints soon after the exit of the child is not lost,
// even if nobody reads at that time.
func TestOutputAfterTheExitIsRead(t *testing.T) {
	t.Parallel()
	c := command("leave a late talker")
	c.Linger = testload.Room(time.Second) // in which the talker has to be scheduled
	p := start(t, c)
	if diff := cmp.Diff(ExitStatus{StdoutHeld: true}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
	if got, err := io.ReadAll(p.Stdout()); string(got) != "late\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// After Stop, Done does not wait for a descendant that holds the output open.
func TestStopDoesNotWaitForHeldOutput(t *testing.T) {
	c := command("leave")
	c.Linger = time.Hour
	p := start(t, c)
	awaitReady(t, p, 1)
	stop(t, p, Ladder{Interrupt: time.Hour})
	if status := wait(t, p); status.StdoutHeld {
		t.Error("the holder was ended, but is said to hold")
	}
}

func TestDeathBySignalIsReported(t *testing.T) {
	p := start(t, command("block"))
	awaitReady(t, p, 1)
	syscall.Kill(p.Pid(), syscall.SIGKILL)
	if diff := cmp.Diff(ExitStatus{Code: -1, Signal: "SIGKILL"}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
	p = start(t, command("signal self"))
	if diff := cmp.Diff(ExitStatus{Code: -1, Signal: deathSignal}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}

func TestStartErrorsNameTheCauseAndLeakNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		c    Command
		want Reason
		err  error
	}{
		"ENOENT":         {Command{Path: filepath.Join(dir, "none")}, NotFound, syscall.ENOENT},
		"ENOTDIR":        {Command{Path: filepath.Join(file("plain", "", 0o600), "x")}, NotFound, syscall.ENOTDIR},
		"EACCES":         {Command{Path: file("text", "hello", 0o600)}, NotExecutable, syscall.EACCES},
		"a directory":    {Command{Path: dir}, NotExecutable, syscall.EACCES},
		"ENOEXEC":        {Command{Path: file("noise", "\x01\x02\x03", 0o700)}, BadFormat, syscall.ENOEXEC},
		"no interpreter": {Command{Path: file("script", "#!/no/such/thing\n", 0o700)}, BadFormat, syscall.ENOENT},
		"no dir":         {Command{Path: self(), Dir: filepath.Join(dir, "none")}, BadDir, syscall.ENOENT},
		"dir is a file":  {Command{Path: self(), Dir: file("file", "", 0o600)}, BadDir, syscall.ENOTDIR},
		"too long":       {Command{Path: self(), Args: []string{strings.Repeat("secret", 1<<20)}}, Failed, syscall.E2BIG},
	} {
		before := descriptors(t)
		_, err := Start(t.Context(), tt.c)
		e := startError(t, err)
		if e.Reason != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v (%q, %v)", name, e, e.Reason, e.Err)
		}
		if strings.Contains(e.Error(), dir) || strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: message has too much in it: %v", name, e)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: %d descriptors before, %d after", name, before, after)
		}
	}
}

func TestStartWithoutDescriptorsFailsCleanly(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	start(t, command("exit", "0")) // so that the runtime has opened the descriptors that it opens only once
	for room := range uint64(9) {
		low := old
		low.Cur = uint64(descriptors(t)) + room
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), Command{Path: self(), Env: []string{roleVar + "=exit"}, Args: []string{"0"}, Mark: ""})
		if err2 := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err2 != nil {
			t.Fatal(err2)
		}
		if err == nil {
			if room < 6 {
				t.Errorf("started with room for %d", room)
			}
			break
		}
		if e := startError(t, err); e.Reason != NoResources {
			t.Errorf("room for %d: %v", room, e)
		}
	}
	if diff := cmp.Diff(ExitStatus{}, wait(t, start(t, command("exit", "0")))); diff != "" {
		t.Error(diff)
	}
}

func TestEndOfAThreadDoesNotKillTheChild(t *testing.T) {
	p := start(t, command("echo"))
	quit := make(chan struct{})
	var chaos sync.WaitGroup
	chaos.Go(func() {
		for !closed(quit) {
			var threads sync.WaitGroup
			for range 10 {
				threads.Go(runtime.LockOSThread) // the thread ends with the goroutine
			}
			threads.Wait()
		}
	})
	for range 20 {
		if diff := cmp.Diff(ExitStatus{}, wait(t, start(t, command("lines", "10")))); diff != "" {
			t.Error(diff)
		}
	}
	close(quit)
	chaos.Wait()
	p.CloseStdin()
	if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}
