package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A ptyScreen is a pseudo-terminal in which an agent runs with its own user
// interface.
type ptyScreen struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
}

// openScreen starts a program in a new terminal.
func openScreen(t *testing.T, cmd *exec.Cmd) *ptyScreen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200})
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	s := &ptyScreen{t: t, keys: keys, cmd: cmd}
	read := make(chan struct{})
	go s.read(read)
	t.Cleanup(func() {
		s.kill()
		<-read
		keys.Close()
	})
	return s
}

// kill ends the program as a closed terminal window does at the latest.
func (s *ptyScreen) kill() {
	if s.cmd.ProcessState == nil { // afterwards another program may have its id
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
	}
}

// read records the program's output and answers its queries to the terminal.
func (s *ptyScreen) read(done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 64<<10)
	for {
		n, err := s.keys.Read(buf)
		if err != nil {
			return
		}
		for ask, answer := range map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c"} {
			if bytes.Contains(buf[:n], []byte(ask)) {
				_, _ = s.keys.WriteString(answer)
			}
		}
		s.mu.Lock()
		s.shown.Write(buf[:n])
		s.mu.Unlock()
	}
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07`)

// has reports whether the program has shown a text, without spaces.
func (s *ptyScreen) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(strings.Fields(sequences.ReplaceAllString(s.shown.String(), "")), ""), text)
}

// types sends a prompt and then Enter, once the program shows its end.
func (s *ptyScreen) types(prompt, end string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(prompt); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the prompt on the screen", func() bool { return s.has(end) })
	if _, err := s.keys.WriteString("\r"); err != nil {
		s.t.Fatal(err)
	}
}

// Claude Code in a terminal continues a session. The session shows each turn
// there and its end while the terminal stays open, and accepts prompts again
// when the terminal is closed.
func TestClaudeInATerminalIsFollowed(t *testing.T) {
	agent := realagents.Find(t, "claude-code")
	s := serve(t, agent)
	settings, err := json.Marshal(map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "numStartups": 5,
		"customApiKeyResponses": map[string]any{"approved": []string{"dummy"}},
		"projects":              map[string]any{s.home.Project: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.home.Config, ".claude.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(text string) string { return play(fakemodel.Step{Text: text}) }
	status := func(session string) (st gateway.Status) {
		s.call("GET", "/api/session/"+session+"/status", nil, &st)
		return st
	}
	d := newSSE(s).(*sse)
	if got := d.turn(said("First, here."), ignore); got.Status != "completed" {
		t.Fatalf("%+v", got)
	}
	st := status(d.session)

	cmd := exec.Command(agent.Path, "--resume", st.AgentSessionID)
	cmd.Dir, cmd.Env = s.home.Project, append(s.env, "TERM=xterm-256color")
	screen := openScreen(t, cmd)
	until(t, "a prompt", func() bool { return screen.has("❯") })
	for _, text := range []string{"Second, there.", "Third, there."} {
		screen.types(said(text), strings.ReplaceAll(text, " ", "")+`"}]}>>`)
		s.shows(d.session, text, cmd)
		until(t, "the end of the turn", func() bool {
			now := status(d.session)
			return now.TurnID == "" && now.LastTurn == "completed" && now.Writer != nil && now.Writer.PID == cmd.Process.Pid
		})
	}
	s.refused(d.session, map[string]any{"content": "text"}, cmd.Process.Pid)
	screen.kill()
	s.settled(d.session)
	d.after = s.lastSeq(d.session)
	if got := d.turn(said("Fourth, here."), ignore); got.Status != "completed" {
		t.Fatalf("%+v", got)
	}
	s.equalsCopy(d.session, "claude-code:"+st.AgentSessionID)
}
