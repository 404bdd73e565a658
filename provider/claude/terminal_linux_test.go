package claude

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
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// A terminal is a pseudo-terminal in which the agent runs with its own user
// interface.
type terminal struct {
	t    *testing.T
	keys *os.File

	mu    sync.Mutex
	shown bytes.Buffer
}

// openTerminal starts a program in a new terminal. The program is killed when
// the test ends.
func openTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
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
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen.Close()
	term := &terminal{t: t, keys: keys}
	read := make(chan struct{})
	go term.read(read)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-read
		keys.Close()
	})
	return term
}

// read records the program's output and answers its queries to the terminal.
func (term *terminal) read(done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 64<<10)
	for {
		n, err := term.keys.Read(buf)
		if err != nil {
			return
		}
		for ask, answer := range map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c"} {
			if bytes.Contains(buf[:n], []byte(ask)) {
				_, _ = term.keys.WriteString(answer)
			}
		}
		term.mu.Lock()
		term.shown.Write(buf[:n])
		term.mu.Unlock()
	}
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07`)

// text returns the output without control sequences and with single spaces.
func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return strings.Join(strings.Fields(sequences.ReplaceAllString(term.shown.String(), " ")), " ")
}

// types sends keys, waits until the program shows them, and sends Enter.
func (term *terminal) types(keys, shows string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
	term.await(shows, func() bool { return strings.Contains(term.text(), shows) })
	if _, err := term.keys.WriteString("\r"); err != nil {
		term.t.Fatal(err)
	}
}

// await waits until holds returns true. what describes the condition.
func (term *terminal) await(what string, holds func() bool) {
	term.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			term.t.Fatalf("no %q; shown: %s", what, term.text())
		}
	}
}

// TestRecordTerminal records the files that the agent stores for a conversation
// in a terminal (testdata/terminal). It runs only with -record.
func TestRecordTerminal(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) { recordTerminal(t, b) })
	}
}

// recordTerminal records a conversation in a terminal: a shell command, a
// custom command of the user, and a command of the agent.
func recordTerminal(t *testing.T, b realagents.Binary) {
	recordtest.Home(t, fixtureDir)
	r := newRigIn(t, b, fixtureDir, "1")
	settings := map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "numStartups": 5,
		"customApiKeyResponses": map[string]any{"approved": []string{"dummy", "sk-ant-dummy"}},
		"projects":              map[string]any{r.Home.Project: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}
	data, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.Home.Config, "commands"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		".claude.json": string(data), "commands/greet.md": "---\ndescription: Greets.\n---\nSay hello to $ARGUMENTS.\n",
	} {
		if err := os.WriteFile(filepath.Join(r.Home.Config, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(b.Path)
	cmd.Dir, cmd.Env = r.Home.Project, append(append(os.Environ(), r.Opt.Env...), "TERM=xterm-256color")
	term := openTerminal(t, cmd)
	stores := func(text string, n int) {
		t.Helper()
		term.await(text, func() bool {
			if _, err := os.Stat(filepath.Join(r.Home.Config, "projects")); err != nil {
				return false // the agent has stored nothing yet
			}
			all := ""
			for _, f := range readStored(t, r.Home.Config) {
				all += string(f.Data)
			}
			return strings.Count(all, text) >= n
		})
	}
	term.await("a prompt", func() bool { return strings.Contains(term.text(), "❯") })
	term.types("!echo from-bash; echo wrong >&2", "wrong >&2")
	stores(`"turn_duration"`, 1)
	term.types("/greet the <world> & all", "<world> & all")
	stores(`"turn_duration"`, 2)
	term.types("/model", "/model")
	term.await("a choice", func() bool { return strings.Contains(term.text(), "Esc") || strings.Contains(term.text(), "Select") })
	if _, err := term.keys.WriteString("\x1b"); err != nil {
		t.Fatal(err)
	}
	stores("Kept model", 1)
	stored := readStored(t, r.Home.Config)
	var all []string
	for _, s := range stored {
		all = append(all, string(s.Data))
	}
	a := &txtar.Archive{Comment: []byte("Commands that a user types in a terminal, and the files that the agent stores.\n\nRecorded with Claude Code " + b.Version + ".\n")}
	a.Files = append(newNormaliser(all).stored(stored), txtar.File{Name: "want"})
	a.Files[len(a.Files)-1].Data = shownOf(t, a)
	recordtest.Save(t, filepath.Join("testdata", "terminal", "typed@"+b.Version+".txtar"), a)
}
