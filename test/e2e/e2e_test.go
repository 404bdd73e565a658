//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

type args map[string]any

// use returns a tool call of the model.
func use(name string, input args) fakemodel.Block {
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return fakemodel.Block{Type: "tool_use", Name: name, Input: data}
}

func play(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }

func step(blocks ...fakemodel.Block) fakemodel.Step { return fakemodel.Step{Blocks: blocks} }

var done = fakemodel.Step{Text: "All done."}

func ignore(moment) reaction { return nothing }

// once reacts with r to the first moment of a kind and ignores all others.
func once(when moment, r reaction) func(moment) reaction {
	return func(m moment) reaction {
		if m != when || r == nothing {
			return nothing
		}
		out := r
		r = nothing
		return out
	}
}

// always reacts with r to every moment of a kind and ignores all others.
func always(when moment, r reaction) func(moment) reaction {
	return func(m moment) reaction {
		if m == when {
			return r
		}
		return nothing
	}
}

// oneACP is the agent that takes the steps of all agents which speak the Agent
// Client Protocol in make test. It needs the least processor time of them.
const oneACP = "copilot"

// needsLong skips what other tests or agents prove in make test, unless
// RUNNEL_LONG=1 is set. why names them.
func needsLong(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("RUNNEL_LONG") == "" {
		t.Skip(why + ": RUNNEL_LONG=1")
	}
}

func TestRealAgent(t *testing.T) {
	for _, agent := range realagents.UsualClaude(t) {
		t.Run(agent.Version, func(t *testing.T) {
			t.Parallel()
			s := serve(t, agent)
			eachDriver(t, s, func(t *testing.T, d driver) {
				file := func(name string) string { return filepath.Join(s.home.Project, name) }
				t.Run("TextAndThinking", func(t *testing.T) { textAndThinking(t, d) })
				t.Run("FiveTools", func(t *testing.T) { fiveTools(t, d, file) })
				t.Run("Approvals", func(t *testing.T) { approvals(t, d, file) })
				t.Run("Interrupts", func(t *testing.T) { interrupts(t, d, file) })
				t.Run("Failures", func(t *testing.T) { failures(t, d) })
				t.Run("ResumeAfterKill", func(t *testing.T) { resumeAfterKill(t, d) })
			})
		})
	}
}

func textAndThinking(t *testing.T, d driver) {
	got := d.turn(play(step(
		fakemodel.Block{Type: "thinking", Text: "Let me think."}, fakemodel.Block{Type: "text", Text: "Grüße, 世界 🙂."})), ignore)
	if got.Status != "completed" || !slices.Equal(got.Text, []string{"Grüße, 世界 🙂."}) || !slices.Equal(got.Thinking, []string{"Let me think."}) {
		t.Errorf("%+v", got)
	}
}

func fiveTools(t *testing.T, d driver, file func(string) string) {
	for name, text := range map[string]string{"a.txt": "alpha\nbeta\n", "b.txt": "other\n"} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(file("new.txt"))
	got := d.turn(play(
		step(use("Read", args{"file_path": file("b.txt")}), use("Read", args{"file_path": file("a.txt")})),
		step(use("Bash", args{"command": "touch second; exit 3", "description": "Fail"})),
		step(use("Edit", args{"file_path": file("a.txt"), "old_string": "beta", "new_string": "gamma"})),
		step(use("Write", args{"file_path": file("new.txt"), "content": "new\n"})),
		done), always(asked, allow))
	if got.Status != "completed" || !slices.Contains(got.Text, "All done.") || len(got.Tools) != 5 {
		t.Fatalf("%+v", got)
	}
	if strings.Contains(got.Tools[0].Output, "beta") { // calls of one message run in parallel and may end in either order
		got.Tools[0], got.Tools[1] = got.Tools[1], got.Tools[0]
	}
	for i, want := range []tool{
		{Name: "Read", Output: "other"}, {Name: "Read", Output: "beta"}, {Name: "Bash", Failed: true},
		{Name: "Edit", Changes: 1}, {Name: "Write", Changes: 1},
	} {
		have := got.Tools[i]
		if have.Name != want.Name || have.Failed != want.Failed || have.Changes != want.Changes || !strings.Contains(have.Output, want.Output) {
			t.Errorf("tool %d: %+v, want %+v", i, have, want)
		}
	}
	if text, _ := os.ReadFile(file("a.txt")); string(text) != "alpha\ngamma\n" {
		t.Errorf("a.txt: %q", text)
	}
}

func approvals(t *testing.T, d driver, file func(string) string) {
	for _, tt := range []struct {
		react    reaction
		status   string
		resolved string
		ran      bool
	}{
		{allow, "completed", "allow_once user", true},
		{deny, "completed", "deny user", false},
		{stop, "cancelled", "deny_stop user", false},
		{cancel, "cancelled", "withdrawn policy", false},
	} {
		_ = os.Remove(file("asked"))
		got := d.turn(play(step(use("Bash", args{"command": "touch asked", "description": "Ask"})), done), once(asked, tt.react))
		_, err := os.Stat(file("asked"))
		if got.Status != tt.status || !slices.Equal(got.Resolved, []string{tt.resolved}) || (err == nil) != tt.ran {
			t.Errorf("%s: %+v, ran %v", tt.react, got, err == nil)
		}
	}
}

func interrupts(t *testing.T, d driver, file func(string) string) {
	long := []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}
	text := fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: long}
	arguments := fakemodel.Step{Blocks: []fakemodel.Block{use("Bash", args{"command": "echo " + strings.Repeat("long ", 40)})}, Faults: long}
	_ = os.Remove(file("running"))
	if err := syscall.Mkfifo(file("running"), 0o600); err != nil {
		t.Fatal(err)
	}
	running := step(use("Bash", args{"command": "echo > " + file("running") + "; sleep 600", "description": "Wait"}))
	question := step(use("Bash", args{"command": "touch never", "description": "Ask"}))
	for name, tt := range map[string]struct {
		step  fakemodel.Step
		react func(moment) reaction
	}{
		"in text":        {text, once(inText, cancel)},
		"in arguments":   {arguments, once(inArguments, cancel)},
		"in a tool":      {running, once(asked, allowed)},
		"in an approval": {question, once(asked, cancel)},
	} {
		if got := d.turn(play(tt.step, done), tt.react); got.Status != "cancelled" {
			t.Errorf("%s: %+v", name, got)
		}
		if got := d.turn(play(done), ignore); got.Status != "completed" {
			t.Errorf("%s: the next turn: %+v", name, got)
		}
	}
}

func failures(t *testing.T, d driver) {
	for status, want := range map[int]string{401: "INVALID_API_KEY", 429: "RATE_LIMITED", 500: "AGENT_ERROR", 529: "AGENT_ERROR"} {
		got := d.turn(play(fakemodel.Step{Fail: &fakemodel.Failure{Status: status}}), ignore)
		if got.Status != want {
			t.Errorf("%d: %+v", status, got)
		}
	}
	for _, kind := range []string{fakemodel.Malformed, fakemodel.Truncate} {
		broken := fakemodel.Step{Text: "one two three four", Faults: []fakemodel.Fault{{Kind: kind, After: 1, Times: 1}}}
		if got := d.turn(play(broken), ignore); got.Status != "completed" || fmt.Sprint(got.Text) != "[one two three four]" {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	if got := d.turn(play(done), ignore); got.Status != "completed" {
		t.Errorf("the next turn: %+v", got)
	}
}

func resumeAfterKill(t *testing.T, d driver) {
	long := fakemodel.Step{Text: strings.Repeat("on and on ", 40), Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 6}}}
	if got := d.turn(play(long), once(inText, kill)); got.Status != "PROCESS_CRASH" {
		t.Errorf("%+v", got)
	}
	if got := d.turn(play(done), ignore); got.Status != "completed" || fmt.Sprint(got.Text) != "[All done.]" {
		t.Errorf("the next turn: %+v", got)
	}
}
