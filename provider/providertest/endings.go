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

// A Dialect is what a small program has to say to pass for an agent. Its parts
// are lines of sh: reply takes the result of the request in $id.
type Dialect struct {
	Open   string // branches of a case on $line that answer what begins and continues a conversation
	Prompt string // pattern of a line with a prompt
	Begin  string // says that the turn runs
	Answer string // says "Answer." and that the turn is over
}

// program takes the place of an agent. It ignores its input and signals, unless
// a case asks for something else.
const program = `#!/bin/sh
trap '' INT TERM HUP
deaf=yes

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
while [ $deaf = yes ]; do sleep 1; done
`

// What a program does with a prompt.
const (
	muteOnce = `if [ -e "$0.mute" ]; then trap - INT TERM HUP; deaf=no; answer; else touch "$0.mute"; fi`
	held     = "sleep 600 & " // holds its output open
)

// patient bounds how long a provider takes to end a program that does not end
// itself: twice the ladder of signals, and room for the cases that run beside it.
const patient = 12 * time.Second

// Endings shows how a provider ends what does not end itself, and reports what
// ended too early. with returns a provider whose agent is the program at a path.
//
// The cases run in parallel: most of each is the time that a program gets to
// end. Each looks only for processes that work in its own directory. What ends
// the program must do so within patient; patience turns one that is never ended
// into a failure.
func Endings(t *testing.T, d Dialect, with func(path string) runnel.Provider) {
	t.Cleanup(func() { // when all cases are over
		if left := descendants(); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	small := func(t *testing.T, text string, mode os.FileMode) *ending {
		t.Helper()
		t.Parallel()
		path := filepath.Join(t.TempDir(), "agent")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return &ending{t: t, provider: with(path), dir: t.TempDir()}
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
			_ = s.Close() // once more does nothing
			e.left()
		})
		return s, log
	}
	t.Run("CancelStopsTheAgentInSteps", func(t *testing.T) {
		s, log := open(t, muteOnce)
		turn := begin(t, s)
		began := time.Now()
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, ok := theEnd(t, log, turn.ID).(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
			t.Errorf("%#v", b)
		}
		testload.Within(t, "cancelling", began, patient)
		again := begin(t, s)
		if b, ok := theEnd(t, log, again.ID).(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
			t.Errorf("the next turn: %#v", b)
		}
	})
	t.Run("TurnEndsWithItsResult", func(t *testing.T) {
		s, log := open(t, "answer")
		for range 2 {
			if b, ok := theEnd(t, log, begin(t, s).ID).(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
				t.Errorf("%#v", b)
			}
		}
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		testload.Within(t, "closing", began, patient)
	})
	for behave, want := range map[string]runnel.ExitStatus{
		"exit 0": {}, held + "exit 7": {Code: 7, StdoutHeld: true}, "kill -KILL $$": {Code: -1, Signal: "SIGKILL"}, "kill -SEGV $$": {Code: -1, Signal: "SIGSEGV"},
	} {
		t.Run("ExitWithoutResult/"+behave, func(t *testing.T) {
			s, log := open(t, behave)
			began := time.Now()
			b, ok := theEnd(t, log, begin(t, s).ID).(event.ResponseError)
			testload.Within(t, "reporting the crash", began, patient)
			if !ok || b.Error.Code != string(runnel.ProcessCrash) {
				t.Errorf("%+v", b)
			}
			_ = s.Close() // how it ended is known for certain when all that it started is gone
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
				_ = s.Close() // it should not be there
			}
			if code := runnel.CodeOf(err); code != runnel.SessionCreateFailed && code != runnel.AgentNotInstalled {
				t.Errorf("%v", err)
			}
			e.left()
		})
	}
}

// An ending is one case: a program, and the directory that it works in.
type ending struct {
	t        *testing.T
	provider runnel.Provider
	dir      string
}

func (e *ending) open(cfg runnel.Config) (*runnel.Session, error) {
	return runnel.Open(e.t.Context(), e.provider, runnel.Options{Dir: e.dir}, cfg)
}

// left fails the test if a process still works in the directory.
func (e *ending) left() {
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

// theEnd returns how a turn ended, once it has. It fails the test if there is
// more of it, and if what started did not end.
func theEnd(t *testing.T, log runnel.Log, turn string) event.Body {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
