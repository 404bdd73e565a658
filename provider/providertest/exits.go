package providertest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
)

// ShellAgent describes how a small shell program imitates an agent. The fields
// are lines of sh. They can call the function reply, which answers the request
// with the id $id; its argument is the result.
type ShellAgent struct {
	Open   string // case branches on $line that answer the requests of the handshake
	Prompt string // pattern of a line with a prompt
	Begin  string // commands that report the start of the turn
	Answer string // commands that print the message "Answer." and end the turn
}

// program imitates an agent. RunExits replaces the words in capitals. By
// default the program ignores signals and the end of its input.
const program = `#!/bin/sh
trap '' INT TERM HUP
ignore_eof=yes

reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
begin() {
:
BEGIN
}
answer() {
ANSWER
}
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^[^"]*\("jsonrpc":"2.0",\)\{0,1\}"id":\("[^"]*"\|[0-9]*\),.*/\2/p')
  case $line in
OPEN
  PROMPT) begin; BEHAVE ;;
  esac
done
while [ $ignore_eof = yes ]; do sleep 1; done
`

// Commands that a program runs on a prompt.
const (
	ignoreCancelOnce = `if [ -e "$0.mute" ]; then trap - INT TERM HUP; ignore_eof=no; answer; else touch "$0.mute"; fi`
	keepStdoutOpen   = "sleep 600 & " // a child process keeps stdout open
)

// exitTimeout is the maximum time in which a provider stops a program that does
// not exit by itself. It is twice the sum of the grace periods after each
// signal, plus a margin for the cases that run in parallel.
const exitTimeout = 12 * time.Second

// RunExits tests how a provider stops an agent that does not exit by itself,
// and how it reports an agent that exits too early. with returns a provider
// whose agent is the program at path.
//
// The cases run in parallel, because they mostly wait for grace periods. Each
// case checks only the processes whose working directory is its own. The
// provider must stop the program within exitTimeout. Each wait of a case fails
// after waitTimeout.
func RunExits(t *testing.T, d ShellAgent, with func(path string) runnel.Provider) {
	t.Cleanup(func() { // after all cases
		if left := descendants(); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	small := func(t *testing.T, text string, mode os.FileMode) *exitCase {
		t.Helper()
		t.Parallel()
		path := filepath.Join(t.TempDir(), "agent")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return &exitCase{t: t, provider: with(path), dir: t.TempDir()}
	}
	open := func(t *testing.T, behave string) (*runnel.Session, *runnel.Memory) {
		t.Helper()
		text := strings.NewReplacer("BEGIN", d.Begin, "ANSWER", d.Answer, "OPEN", d.Open, "PROMPT", d.Prompt, "BEHAVE", behave).Replace(program)
		e, log := small(t, text, 0o700), new(runnel.Memory)
		s, err := e.open(runnel.Config{ID: "s", Log: log, InterruptGrace: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = s.Close() // a second call does nothing
			e.checkNoProcesses()
		})
		return s, log
	}
	t.Run("CancelStopsTheAgentInSteps", func(t *testing.T) {
		s, log := open(t, ignoreCancelOnce)
		turn := begin(t, s)
		began := time.Now()
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, ok := turnEnd(t, log, turn.ID).(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
			t.Errorf("%#v", b)
		}
		testload.Within(t, "cancelling", began, exitTimeout)
		again := begin(t, s)
		if b, ok := turnEnd(t, log, again.ID).(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
			t.Errorf("the next turn: %#v", b)
		}
	})
	t.Run("TurnEndsWithItsResult", func(t *testing.T) {
		s, log := open(t, "answer")
		for range 2 {
			if b, ok := turnEnd(t, log, begin(t, s).ID).(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
				t.Errorf("%#v", b)
			}
		}
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		testload.Within(t, "closing", began, exitTimeout)
	})
	for behave, want := range map[string]runnel.ExitStatus{
		"exit 0": {}, keepStdoutOpen + "exit 7": {Code: 7, StdoutHeld: true}, "kill -KILL $$": {Code: -1, Signal: "SIGKILL"}, "kill -SEGV $$": {Code: -1, Signal: "SIGSEGV"},
	} {
		t.Run("ExitWithoutResult/"+behave, func(t *testing.T) {
			s, log := open(t, behave)
			began := time.Now()
			b, ok := turnEnd(t, log, begin(t, s).ID).(event.ResponseError)
			testload.Within(t, "reporting the crash", began, exitTimeout)
			if !ok || b.Error.Code != string(runnel.ProcessCrash) {
				t.Errorf("%+v", b)
			}
			_ = s.Close() // the exit status is final once all child processes have exited
			st := s.Status()
			if st.Exit == nil || *st.Exit != want {
				t.Errorf("it ended as %+v, want %+v", st.Exit, want)
			}
		})
	}
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"not executable": {program, 0o600}, "no program": {"\x00\x01\x02", 0o700}, "no interpreter": {"#!/nonexistent/sh\n", 0o700},
		"silent": {"#!/bin/sh\nexit 0\n", 0o700}, "broken": {"#!/bin/sh\necho '{'; kill -SEGV $$\n", 0o700},
	} {
		t.Run("StartErrors/"+name, func(t *testing.T) {
			e := small(t, f.text, f.mode)
			s, err := e.open(runnel.Config{})
			if err == nil {
				_ = s.Close()
			}
			if code := runnel.CodeOf(err); code != runnel.SessionCreateFailed && code != runnel.AgentNotInstalled {
				t.Errorf("%v", err)
			}
			e.checkNoProcesses()
		})
	}
}

// exitCase is one case: a provider with its program, and the working directory.
type exitCase struct {
	t        *testing.T
	provider runnel.Provider
	dir      string
}

func (e *exitCase) open(cfg runnel.Config) (*runnel.Session, error) {
	return runnel.Open(e.t.Context(), e.provider, runnel.Options{Dir: e.dir}, cfg)
}

// checkNoProcesses fails the test if a descendant process still has the case's
// directory as its working directory.
func (e *exitCase) checkNoProcesses() {
	e.t.Helper()
	if left := slices.DeleteFunc(descendants(), func(pid int) bool { return !worksIn(pid, e.dir) }); len(left) > 0 {
		e.t.Errorf("processes %v are left", left)
	}
}

func begin(t *testing.T, s *runnel.Session) *runnel.Turn {
	t.Helper()
	turn, err := s.Send(t.Context(), runnel.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// turnEnd waits for the end of a turn and returns its terminal event. It fails
// the test if the turn has several terminal events.
func turnEnd(t *testing.T, log runnel.Log, turn string) event.Body {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	var last event.Body
	for ev, err := range runnel.Follow(ctx, log, "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Turn == turn && event.Ends(ev.Body) {
			last = ev.Body
			break
		}
	}
	ends := 0
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Turn == turn && event.Ends(ev.Body) {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("the turn ended %d times", ends)
	}
	return last
}
