package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A display is a terminal with a screen, as a person sees it.
type display struct {
	*terminal
	cmd  *exec.Cmd
	read chan struct{} // closed once the program has closed the terminal

	mu      sync.Mutex
	changed *sync.Cond
	screen  *vt.Emulator
	raw     strings.Builder
	ended   bool
}

// show starts a command on a terminal of this size.
func show(t *testing.T, cmd *exec.Cmd, width, height int) *display {
	t.Helper()
	d := &display{terminal: newTerminal(t, uint16(width)), cmd: cmd, read: make(chan struct{}), screen: vt.NewEmulator(width, height)}
	d.changed = sync.NewCond(&d.mu)
	d.resizeTerminal(t, width, height)
	d.begin(t, cmd)
	go d.watch()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-d.read
	})
	return d
}

func (d *display) resizeTerminal(t *testing.T, width, height int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(d.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
}

// resize changes the size of the terminal, as a user does with its window.
func (d *display) resize(t *testing.T, width, height int) {
	t.Helper()
	d.mu.Lock()
	d.screen.Resize(width, height)
	d.mu.Unlock()
	d.resizeTerminal(t, width, height)
}

// watch draws what the program prints.
func (d *display) watch() {
	defer close(d.read)
	for buf := make([]byte, 32<<10); ; {
		n, err := d.Read(buf)
		d.mu.Lock()
		_, _ = d.screen.Write(buf[:n])
		d.raw.Write(buf[:n])
		d.ended = err != nil
		d.changed.Broadcast()
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text returns the rows of the screen without spaces at their ends. The caller
// holds d.mu.
func (d *display) text() string {
	var rows []string
	for row := range strings.Lines(d.screen.String()) {
		rows = append(rows, strings.TrimRight(row, " \n"))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// sees waits until the screen matches a regular expression, in which (?m) is
// set, and returns the screen.
func (d *display) sees(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	return d.until(t, pattern, want.MatchString)
}

func (d *display) until(t *testing.T, what string, ok func(text string) bool) string {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = true
		d.changed.Broadcast()
	})
	defer late.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		text := d.text()
		if ok(text) {
			return text
		}
		if d.ended {
			t.Fatalf("the screen never shows %s:\n%s", what, text)
		}
		d.changed.Wait()
	}
}

// end waits for the end of the command. It returns the screen and the exit code.
func (d *display) end(t *testing.T) (text string, code int) {
	t.Helper()
	<-d.read
	err := d.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, syscall.ECHILD) {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text(), d.cmd.ProcessState.ExitCode()
}

// release lets the test agent, which waits for a named pipe, continue.
func release(t *testing.T, fifo string) {
	t.Helper()
	if err := os.WriteFile(fifo, []byte("ok"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A person sees the calls that run, each in one row that is replaced by its
// result, and a summary at the end. The terminal may become narrower meanwhile.
func TestRunIsDrawnOnATerminal(t *testing.T) {
	testload.TakesLong(t)
	s := newScene(t)
	s.withAgent(t)
	fifo := s.fifo(t)
	d := show(t, s.command(t, "run", "--agent", "mine", "work: "+fifo), 80, 40)
	d.sees(t, `^[⠋⠙⠸⠴⠦⠇] Run make test · \d s$`)
	text := d.sees(t, `^[⠋⠙⠸⠴⠦⠇] Working · \d s · Ctrl-C cancels$`)
	if !strings.HasPrefix(text, "I will look and then build it.\n\n≡ Read 2 files  a.go, b.go\n") {
		t.Errorf("the screen shows\n%s", text)
	}
	d.resize(t, 40, 40)
	release(t, fifo)
	text, code := d.end(t)
	want := `I will look and then build it.

≡ Read 2 files  a.go, b.go
$ Run make test ✓ · N s
± Edit a.go +1 −1
  - package a
  + package b

It is built.

✓ Completed in N s · 1 file changed +1
  −1`
	if got := regexp.MustCompile(`\d+\.?\d* s`).ReplaceAllString(text, "N s"); got != want || code != exitOK {
		t.Errorf("exit %d, and the screen shows\n%s\nwant\n%s", code, got, want)
	}
	if raw := d.raw.String(); !strings.Contains(raw, "\x1b[32m") {
		t.Errorf("there are no colours: %q", raw)
	}
}

// Ctrl-C at the terminal cancels the turn.
func TestInterruptAtATerminal(t *testing.T) {
	s := newScene(t)
	d := show(t, s.command(t, "run", "--agent", "script", "hang"), 80, 24)
	d.sees(t, `^Now I say nothing until I am interrupted\.$`)
	d.typeIn(t, "typed text is not shown\n\x03")
	text, code := d.end(t)
	if code != exitNotDone || !strings.Contains(text, "\n■ Cancelled") || !strings.HasSuffix(text, "runnel run: cancelled") || strings.Contains(text, "typed text") {
		t.Errorf("exit %d, and the screen shows\n%s", code, text)
	}
}

// A question interrupts the live lines. Its answer is in the row of the call.
func TestQuestionIsDrawnOnATerminal(t *testing.T) {
	s := newScene(t)
	for _, width := range []int{80, 40} {
		d := show(t, s.command(t, "run", "--agent", "script", "--ask", "approve"), width, 40)
		d.sees(t, `^Your choice, 1 to 4:$`)
		d.typeIn(t, "1\n")
		text, code := d.end(t)
		_, rest, _ := strings.Cut(text, "Your choice, 1 to 4: 1\n")
		if n := strings.Count(text, "rm -r build"); n != 1 || code != exitOK || !strings.HasPrefix(rest, "$ ✓ · allowed by you\n\nDone.\n\n✓ Completed") {
			t.Errorf("exit %d, the command is shown %d times, and the screen shows\n%s", code, n, text)
		}
	}
}

// Without a capable terminal the output is plain.
func TestPlainOutputWithoutACapableTerminal(t *testing.T) {
	s := newScene(t)
	for name, c := range map[string]struct {
		env  string
		flag string
		want func(raw string) bool
	}{
		"a dumb terminal": {"TERM=dumb", "-v", func(raw string) bool {
			return !strings.Contains(raw, "\x1b") && strings.Contains(raw, "• Read file1.go")
		}},
		"no colours": {"NO_COLOR=1", "-v", func(raw string) bool {
			return !regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(raw) && strings.Contains(raw, "≡ Read file1.go")
		}},
		"only the answer": {"TERM=xterm", "-q", func(raw string) bool { return raw == "That was every kind of tool.\r\n" }},
	} {
		cmd := s.command(t, "run", "--agent", "script", c.flag, "tools")
		cmd.Env = append(cmd.Env, c.env)
		d := show(t, cmd, 80, 40)
		if _, code := d.end(t); code != exitOK || !c.want(d.raw.String()) {
			t.Errorf("%s: exit %d, raw output %q", name, code, d.raw.String())
		}
	}
}

// A person attaches to a session, leaves its approval unanswered, and answers it
// in a narrower terminal later.
func TestAttachAnswersAtATerminal(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	var created struct{ SessionID string }
	s.call(t, "POST", "/api/session/create", map[string]any{"cliType": "script", "projectDir": s.project}, &created)
	s.call(t, "POST", "/api/session/"+created.SessionID+"/send", map[string]any{"content": "approve"}, nil)
	attach := func(width int) *display {
		d := show(t, s.command(t, "attach", created.SessionID[:13]), width, 40)
		d.sees(t, `^> approve$`)
		d.sees(t, `^Your choice, 1 to 4:$`)
		return d
	}
	d := attach(80)
	d.typeIn(t, "\x03")
	text, code := d.end(t)
	if code != exitOK || !strings.Contains(text, "\nThe approval still waits for an answer.") {
		t.Errorf("exit %d, and the screen shows\n%s", code, text)
	}
	d = attach(40)
	d.typeIn(t, "1\n")
	text = d.sees(t, `^✓ Completed`)
	if n := strings.Count(text, "rm -r build"); n != 1 || !strings.Contains(text, "\n$ ✓ · allowed by you") {
		t.Errorf("the command is shown %d times, and the screen shows\n%s", n, text)
	}
	d.typeIn(t, "\x03")
	if text, code := d.end(t); code != exitOK {
		t.Errorf("exit %d, and the screen shows\n%s", code, text)
	}
}
