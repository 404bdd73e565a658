package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
)

// terminal is a person's end of a pseudo-terminal.
type terminal struct {
	*os.File
	program *os.File // the program's end; closed once the program runs
	seen    bytes.Buffer
}

// newTerminal opens a pseudo-terminal of a width.
func newTerminal(t *testing.T, width uint16) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{File: person, program: program}
}

// start runs a command at the terminal.
func (tm *terminal) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "runnel", args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	tm.begin(t, cmd)
	return cmd
}

// begin starts cmd at the terminal.
func (tm *terminal) begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tm.program, tm.program, tm.program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tm.program.Close()
}

// await reads the screen until text has appeared n times.
func (tm *terminal) await(t *testing.T, text string, n int) {
	t.Helper()
	for buf := make([]byte, 4096); strings.Count(tm.seen.String(), text) < n; {
		k, err := tm.Read(buf)
		tm.seen.Write(buf[:k])
		if err != nil {
			t.Fatalf("%v before %q:\n%s", err, text, tm.seen.String())
		}
	}
}

func (tm *terminal) typeIn(t *testing.T, text string) {
	t.Helper()
	if _, err := tm.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// rest reads the screen until the command has ended, and returns the exit code.
func (tm *terminal) rest(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	_, err := tm.seen.ReadFrom(tm.File)
	if err != nil && !errors.Is(err, syscall.EIO) { // the program's end is closed
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestLineTypedBeforeTheQuestionIsNoAnswer(t *testing.T) {
	testload.TakesLong(t)
	for name, c := range map[string]struct {
		before, answer string
		code           int
	}{
		"allowed":            {"", "1\n", exitOK},
		"denied":             {"", "3\n", exitNotDone},
		"a line before":      {"1\n", "3\n", exitNotDone},
		"half a line before": {"1\n1", "\n", -1}, // the unfinished line is discarded, so the answer is an empty line, which chooses nothing
		"many lines before":  {strings.Repeat("1\n", 50), "3\n", exitNotDone},
	} {
		t.Run(name, func(t *testing.T) {
			tm := newTerminal(t, 100)
			tm.typeIn(t, c.before)
			cmd := tm.start(t, "run", "--agent", "script", "--ask", "approve")
			tm.await(t, "Your choice, 1 to 4: ", 1)
			tm.typeIn(t, c.answer)
			if c.code < 0 {
				tm.await(t, "Your choice, 1 to 4: ", 2)
				tm.typeIn(t, "3\n")
				c.code = exitNotDone
			}
			if code := tm.rest(t, cmd); code != c.code {
				t.Errorf("exit %d, want %d:\n%s", code, c.code, tm.seen.String())
			}
		})
	}
}

// The rows above the question are replaced by it. They do not repeat the
// command, also after the answer.
func TestQuestionShowsACommandOnce(t *testing.T) {
	s := newScene(t)
	d := show(t, s.command(t, "run", "--agent", "script", "--ask", "approve"), 100, 40)
	asks := d.sees(t, "^Your choice")
	d.typeIn(t, "3\n")
	answered, _ := d.end(t)
	for name, text := range map[string]string{"asks": asks, "answered": answered} {
		if n := strings.Count(text, "rm -r build"); n != 1 {
			t.Errorf("the screen that %s shows the command %d times:\n%s", name, n, text)
		}
	}
}

// A program reads an approval and answers it by its id.
func TestProgramAnswersTheQuestionItNames(t *testing.T) {
	allow := func(a event.Approval) string {
		return `{"approvalId":"` + a.ID + `","choice":"allow","argumentsDigest":"` + a.ArgumentsDigest + `"}`
	}
	for name, c := range map[string]struct {
		answer func(a event.Approval) string // one or more lines
		choice string
		code   int
		stderr string
	}{
		"allow":                    {allow, "allow", exitOK, ""},
		"allow without the digest": {func(a event.Approval) string { return `{"approvalId":"` + a.ID + `","choice":"allow"}` }, "deny", exitNotDone, "argumentsDigest: required"},
		"allow other arguments": {func(a event.Approval) string {
			return `{"approvalId":"` + a.ID + `","choice":"allow","argumentsDigest":"00"}`
		}, "deny", exitNotDone, ""},
		"deny": {func(a event.Approval) string { return `{"approvalId":"` + a.ID + `","choice":"deny","reason":"no"}` }, "deny", exitNotDone, ""},
		"another first": {func(a event.Approval) string {
			return `{"approvalId":"x","choice":"allow"}` + "\n" + allow(a)
		}, "allow", exitOK, "no approval x is open"},
		"no such choice":  {func(a event.Approval) string { return `{"approvalId":"` + a.ID + `","choice":"yes"}` }, "deny", exitNotDone, "has no choice yes"},
		"a stray key":     {func(a event.Approval) string { return `{"approvalId":"` + a.ID + `","choice":"allow","always":true}` }, "deny", exitNotDone, "line 1: this is not an answer"},
		"not an answer":   {func(event.Approval) string { return "1" }, "deny", exitNotDone, "line 1: this is not an answer"},
		"the input's end": {nil, "deny", exitNotDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "runnel", "run", "--agent", "script", "--answers", "-o", "events", "approve")
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			channel := startAnswered(t, cmd)
			choice := ""
			for sc := bufio.NewScanner(channel); sc.Scan(); {
				var ev event.Event
				if err := json.Unmarshal(sc.Bytes(), &ev); err != nil {
					t.Fatal(err)
				}
				switch b := ev.Body.(type) {
				case event.ApprovalRequested:
					if c.answer != nil {
						fmt.Fprintln(channel, c.answer(b.Approval))
					} else {
						_ = channel.CloseWrite()
					}
				case event.ApprovalResolved:
					choice = b.Choice
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || choice != c.choice || !strings.Contains(errOut.String(), c.stderr) {
				t.Errorf("exit %d, choice %q, stderr %q; want %d, %q and %q", code, choice, errOut.String(), c.code, c.choice, c.stderr)
			}
		})
	}
}

// startAnswered starts a command that has one end of a socket pair as standard
// input and output. It returns the other end.
func startAnswered(t *testing.T, cmd *exec.Cmd) *net.UnixConn {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

// An agent can open channels that are not sockets: a pipe through /proc at the
// answering program's end, and a file by its name. It could then answer its own
// approval, or show the program another one.
func TestAnswersComeThroughSocketsOnly(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, other := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "other")
	defer socket.Close()
	defer other.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, c := range map[string]struct {
		in, out *os.File
		says    string
	}{
		"a pipe for answers":    {r, socket, "standard input"},
		"a file of answers":     {file, socket, "standard input"},
		"nothing for answers":   {null, socket, "standard input"},
		"a pipe for questions":  {socket, w, "standard output"},
		"a file of questions":   {socket, file, "standard output"},
		"nobody reads of them":  {socket, null, "standard output"},
		"a pipe for everything": {r, w, "standard input"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without the error the command would wait for an answer
			defer cancel()
			cmd := exec.CommandContext(ctx, "runnel", "run", "--agent", "script", "--answers", "-o", "events", "approve")
			var errOut bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, &errOut
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(errOut.String(), c.says+" is neither a socket nor a terminal") || !strings.Contains(errOut.String(), "socketpair") {
				t.Errorf("exit %d, stderr %q", code, errOut.String())
			}
		})
	}
}

// The output of commands for people fits a terminal of usual width, including
// help.
func TestOutputFitsTheTerminal(t *testing.T) {
	testload.TakesLong(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("RUNNEL_DATA", t.TempDir()+"/data")
	commands := [][]string{{"agents"}, {"agents", "script"}, {"sessions", "list"}, {"token", "create", "a name that is rather long", "--scope", "read,send,approve"}, {"token", "list"}}
	for _, c := range []string{"", "run", "ps", "attach", "logs", "serve", "login", "certificate", "devices", "devices list", "devices rename", "devices revoke", "agents", "sessions", "sessions list", "sessions show", "sessions items", "sessions capture", "token", "token create", "token list", "token revoke", "backup", "doctor", "record", "translate", "version"} {
		commands = append(commands, append(strings.Fields(c), "--help"))
	}
	for _, width := range []uint16{80, 100} {
		for _, args := range commands {
			tm := newTerminal(t, width)
			cmd := tm.start(t, args...)
			if code := tm.rest(t, cmd); code != exitOK {
				t.Errorf("%v: exit %d:\n%s", args, code, tm.seen.String())
			}
			for line := range strings.Lines(tm.seen.String()) {
				if line = strings.TrimRight(line, "\r\n"); cells(line) > int(width) && !strings.Contains(line, os.Getenv("HOME")) {
					t.Errorf("%v on %d columns: a line of %d:\n%s", args, width, cells(line), line)
				}
			}
		}
	}
}
