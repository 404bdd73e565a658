package proc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/testload"
)

func TestEcho(t *testing.T) {
	p := start(t, command("echo"))
	want := strings.Repeat("hello\n", 100_000)
	if err := p.Send([]byte(want)); err != nil {
		t.Fatal(err)
	}
	p.CloseStdin()
	p.CloseStdin()
	if err := p.Send([]byte("late")); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("Send after CloseStdin: %v", err)
	}
	got, err := io.ReadAll(p.Stdout())
	if err != nil || string(got) != want {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(want), err)
	}
	if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
	if queued, since := p.Outbox(); queued != 0 || !since.IsZero() {
		t.Errorf("outbox has %d bytes, stalled since %v", queued, since)
	}
}

func TestFlush(t *testing.T) {
	p := start(t, command("echo"))
	if err := p.Flush(t.Context()); err != nil {
		t.Errorf("nothing to flush: %v", err)
	}
	for range 3 {
		if err := p.Send([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if queued, _ := p.Outbox(); queued != 0 {
			t.Errorf("%d bytes left", queued)
		}
	}
}

func TestWorkingDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := command("where")
	c.Dir = dir
	p := start(t, c)
	if got, _ := io.ReadAll(p.Stdout()); strings.TrimSpace(string(got)) != dir {
		t.Errorf("it runs in %q", got)
	}
}

func TestExitCodesAreReported(t *testing.T) {
	for _, code := range []int{0, 1, 137, 143} {
		p := start(t, command("exit", strconv.Itoa(code)))
		if diff := cmp.Diff(ExitStatus{Code: code}, wait(t, p)); diff != "" {
			t.Error(diff)
		}
		again, err := p.Wait(t.Context())
		if again.Code != code || err != nil {
			t.Errorf("a second Wait: %v, %v", again, err)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := start(t, command("block"))
	awaitReady(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if closed(p.Done()) {
		t.Error("the process ended with the wait for it")
	}
}

func TestStartRefuses(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(cancelled, command("echo")); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	for name, change := range map[string]func(*Command){
		"no path":         func(c *Command) { c.Path = "" },
		"relative path":   func(c *Command) { c.Path = "sh" },
		"relative dir":    func(c *Command) { c.Dir = "." },
		"NUL in argument": func(c *Command) { c.Args = []string{"secret\x00"} },
		"NUL in variable": func(c *Command) { c.Env = []string{"A=secret\x00"} },
		"no variable":     func(c *Command) { c.Env = []string{"secret"} },
		"empty name":      func(c *Command) { c.Env = []string{"=secret"} },
		"bad mark":        func(c *Command) { c.Mark = "A=secret_" + MarkSuffix },
		"unknown mark":    func(c *Command) { c.Mark = "SECRET_OF_SOMEONE_ELSE" },
	} {
		if runtime.GOOS == "windows" && name == "empty name" {
			continue
		}
		c := command("echo")
		change(&c)
		_, err := Start(t.Context(), c)
		if e := startError(t, err); e.Reason != Refused || strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestBatchFilesAreRefusedOnWindows(t *testing.T) {
	for path, ok := range map[string]bool{
		`C:\x\claude.exe`: true, `C:\x\claude.EXE`: true, `C:\x\a.com`: true,
		`C:\x\claude.cmd`: false, `C:\x\claude.BAT`: false, `C:\x\claude`: false, `C:\x\claude.cmd.`: false,
		`C:\x\claude.bat . .`: false, `C:\x\claude.ps1`: false, `C:\x\claude.exe.cmd`: false,
	} {
		if err := check(Command{Path: path}, "windows"); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOnlyAllowedVariablesReachTheChild(t *testing.T) {
	var parent []string
	for i := range 50 {
		n := strconv.Itoa(i)
		parent = append(parent, "AWS_SECRET_ACCESS_KEY"+n+"=canary", "X"+n+"_API_KEY=canary", "GITHUB_TOKEN"+n+"=canary", "RUNNEL_"+n+"=canary")
	}
	parent = append(parent, "RUNNEL_TOKEN=canary", "runnel_token=canary", "PATHX=canary", "XPATH=canary", "PATH", "=canary",
		"PATH=/first", "PATH=/bin", "LC_ALL=C", "LC_TIME=de", "KEPT=from parent", "NEVER=canary")
	for _, e := range parent { // set the variables in this process
		if name, value, ok := strings.Cut(e, "="); ok && name != "" && name != "PATH" {
			t.Setenv(name, value)
		}
	}
	env := Environ(parent, []string{"PATH", "LC_*", "KEPT", "RUNNEL_*", "*UNNEL_TOKEN", "ABSENT"}, map[string]string{
		"KEPT": "from extra", "ADDED": "a=b", roleVar: "environ",
	})
	want := []string{"ADDED=a=b", "KEPT=from extra", "LC_ALL=C", "LC_TIME=de", "PATH=/bin", roleVar + "=environ"}
	slices.Sort(want)
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}

	p := start(t, Command{Path: self(), Env: env})
	out, _ := io.ReadAll(p.Stdout())
	got := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(e string) bool {
		return runtime.GOOS == "windows" && strings.HasPrefix(e, "SYSTEMROOT=") // os/exec always adds it
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyEnvironmentIsNotOurs(t *testing.T) {
	env := Environ([]string{"A=canary"}, nil, nil)
	if env == nil || len(env) != 0 {
		t.Errorf("%q", env)
	}
	t.Setenv(roleVar, "environ")
	t.Setenv("CANARY", "x")
	child, err := spawn(Command{Path: self(), Args: []string{"-test.run=^$"}})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(child.stdout) // the output of the tests, which a child without a role runs
	child.cmd.Wait()
	child.stdin.Close()
	child.stdout.Close()
	child.stderr.Close()
	if bytes.Contains(out, []byte("CANARY")) {
		t.Errorf("the child has our environment: %s", out)
	}
}

func TestBaseHasNothingOfOurs(t *testing.T) {
	for _, secret := range []string{"RUNNEL_TOKEN", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "HTTPS_PROXY", "AWS_PROFILE"} {
		if env := Environ([]string{secret + "=x"}, Base(), nil); len(env) != 0 {
			t.Errorf("%q passed", env)
		}
	}
	if env := Environ([]string{"PATH=/bin", "LC_ALL=C"}, Base(), nil); len(env) != 2 {
		t.Errorf("only %q passed", env)
	}
}

func TestSendAfterTheChildExitsIsAnError(t *testing.T) {
	p := start(t, command("exit", "3"))
	sent := p.Send(make([]byte, 8<<20))
	if sent != nil && !errors.Is(sent, ErrStdinClosed) { // the child may have exited already
		t.Fatal(sent)
	}
	if err := p.Flush(t.Context()); sent == nil && !errors.Is(err, ErrStdinClosed) {
		t.Errorf("Flush: %v", err)
	}
	if diff := cmp.Diff(ExitStatus{Code: 3}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
	if err := p.Send([]byte("x")); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("Send after the exit: %v", err)
	}
}

func TestBlockedStdinDoesNotBlockOtherWork(t *testing.T) {
	c := command("block")
	c.MaxOutbox = 4 << 20
	p := start(t, c)
	awaitReady(t, p, 1)
	line := make([]byte, 1<<20)
	begin := time.Now()
	var sent int
	until(t, "outbox full", func() bool {
		err := p.Send(line)
		if err == nil {
			sent += len(line)
		} else if !errors.Is(err, ErrOutboxFull) {
			t.Fatal(err)
		}
		return err != nil
	})
	testload.Within(t, "sending "+strconv.Itoa(sent)+" bytes", begin, 5*time.Second)
	if err := p.Send(make([]byte, 5<<20)); !errors.Is(err, ErrOutboxFull) {
		t.Errorf("a line that never fits: %v", err)
	}
	until(t, "the pipe is full", func() bool {
		queued, since := p.Outbox()
		return queued > 3<<20 && since.After(begin) && time.Since(since) > 20*time.Millisecond
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush: %v", err)
	}
	p.CloseStdin() // waits forever behind the queued input
	stop(t, p, Now)
	if err := p.Flush(t.Context()); !errors.Is(err, ErrStdinClosed) {
		t.Errorf("Flush after the end: %v", err)
	}
}

func TestSendKeepsNoReference(t *testing.T) {
	p := start(t, command("echo"))
	line := []byte("before")
	for range 1000 {
		copy(line, "before")
		if err := p.Send(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "after ")
	}
	p.CloseStdin()
	if got, _ := io.ReadAll(p.Stdout()); string(got) != strings.Repeat("before", 1000) {
		t.Error("a line was changed after Send")
	}
}

func TestStderrIsBounded(t *testing.T) {
	p := start(t, command("stderr", "64"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wait(t, p)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d KiB allocated", grown>>10)
	}
	tail := p.StderrTail()
	if len(tail) > 64<<10 || len(tail) < 60<<10 {
		t.Errorf("tail of %d bytes", len(tail))
	}
	if !strings.HasPrefix(tail, "0123456789abcde\n0") || !strings.HasSuffix(tail, "e\nthe end") {
		t.Errorf("tail is %.40q … %q", tail, tail[max(0, len(tail)-40):])
	}
}

func TestStderrTailIsClean(t *testing.T) {
	c := command("say", "\x1b[31mred\x1b[0m\x1b]0;title\x07 \u202edesrever\r\nsk-\x1b[1mcanary \xff\n")
	c.Redact = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("sk-canary"), []byte("[redacted]")) }
	p := start(t, c)
	wait(t, p)
	if got, want := p.StderrTail(), "red desrever\n[redacted] \ufffd\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStdoutBeforeExitIsNeverLost(t *testing.T) {
	const lines = 5000 // more than a pipe holds
	var want bytes.Buffer
	for i := range lines {
		want.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	var runs sync.WaitGroup
	todo := make(chan bool, 50)
	if os.Getenv("RUNNEL_LONG") != "" {
		todo = make(chan bool, 200)
	}
	for range cap(todo) {
		todo <- true
	}
	close(todo)
	for range 4 {
		runs.Go(func() {
			for range todo {
				p, err := Start(t.Context(), command("lines", strconv.Itoa(lines)))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(p.Stdout())
				if err != nil || !bytes.Equal(got, want.Bytes()) {
					t.Errorf("%d of %d bytes, %v", len(got), want.Len(), err)
				}
				if status, err := p.Wait(t.Context()); status != (ExitStatus{}) || err != nil {
					t.Error(status, err)
				}
			}
		})
	}
	runs.Wait()
}

// Done does not wait until the output is read, and the rest of the output can
// be read afterwards.
func TestStdoutReadAfterTheEnd(t *testing.T) {
	for range 20 {
		c := command("lines", "1000")
		c.Linger = time.Hour // the test would take an hour if Done waited for the reader
		p := start(t, c)
		if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
			t.Error(diff)
		}
		got, err := io.ReadAll(p.Stdout())
		if err != nil || bytes.Count(got, []byte("\n")) != 1000 || !bytes.HasSuffix(got, []byte("line 999\n")) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

func TestStopAfterTheEnd(t *testing.T) {
	p := start(t, command("exit", "0"))
	wait(t, p)
	stop(t, p, Ladder{})
	stop(t, p, Now)
	if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}

func TestStopDrains(t *testing.T) {
	p := start(t, command("echo"))
	if err := p.Send([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	stop(t, p, Ladder{Drain: 20 * time.Second})
	if got, _ := io.ReadAll(p.Stdout()); string(got) != "last words" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(ExitStatus{}, wait(t, p)); diff != "" {
		t.Error(diff)
	}
}

func TestStartErrorsNameOnlyTheProgram(t *testing.T) {
	for path, want := range map[string]string{
		"/very/secret/claude":            "claude",
		"/very/secret/a\x1b]b":           `"a\x1b]b"`,
		"/x/" + strings.Repeat("a", 500): strings.Repeat("a", 64),
	} {
		if got := program(filepath.FromSlash(path)); got != want {
			t.Errorf("program(%q) = %s", path, got)
		}
	}
	_, err := Start(t.Context(), Command{Path: filepath.Join(t.TempDir(), "no-such.exe"), Args: []string{"secret"}, Env: []string{"A=secret"}})
	if e := startError(t, err); e.Reason != NotFound || !errors.Is(err, os.ErrNotExist) ||
		strings.Contains(e.Error(), "secret") || strings.ContainsRune(e.Error(), filepath.Separator) {
		t.Errorf("%+v: %v", e, e)
	}
}
