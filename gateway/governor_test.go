package gateway

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

func calling(tool string) policy.Call {
	return policy.Call{Approval: event.Approval{ID: "a", Kind: event.ApprovalTool, ToolName: tool}}
}

// A running turn keeps the rules of its prompt, even after a restart of the
// server. If the rules cannot be read, a person decides every approval.
func TestRulesOfARunningTurnSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("strict", "---\ndisallowed_tools: [Write]\nauto_approve_tools: [Read]\n---\n")
	o := &opener{cfg: &Config{ProfilesDir: dir}}
	options, err := kept{Turn: &turnRules{Turn: "t1", Persona: "strict", Governance: &profile.Governance{}}}.in([]byte(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	restart := func(open ...span) *governor {
		e := &entry{gov: newGovernor(slog.New(slog.DiscardHandler), "s", script.New()), turns: open}
		o.recallTurn(e, store.Session{ProjectDir: t.TempDir(), Options: options})
		return e.gov
	}
	verdicts := func(g *governor) string {
		forbidden, denies := g.forbids(t.Context(), calling("Write"))
		_, approves := g.approves(t.Context(), calling("Read"))
		return fmt.Sprint(denies, forbidden.Ask, approves)
	}
	for name, tt := range map[string]struct {
		g    *governor
		want string // whether it denies Write, asks for it, approves Read
	}{
		"running": {restart(span{turn: "t1"}), "true false true"},
		"ended":   {restart(span{turn: "t1", end: 7}), "false false false"},
		"another": {restart(span{turn: "t2"}), "false false false"},
	} {
		if got := verdicts(tt.g); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	g := restart(span{turn: "t1"})
	g.endTurn("t2")
	if got := verdicts(g); got != "true false true" {
		t.Errorf("after the end of another turn: %s", got)
	}
	g.endTurn("t1")
	if got := verdicts(g); got != "false false false" {
		t.Errorf("after its end: %s", got)
	}
	write("strict", "not a profile")
	if got := verdicts(restart(span{turn: "t1"})); got != "true true false" {
		t.Errorf("without its profile: %s", got)
	}
}

// Each kind of agent names the subagent in its own way. The name is empty if it
// cannot be read.
func TestSubagentIsFoundInTheArguments(t *testing.T) {
	for args, want := range map[string]string{
		`{"subagent_type":"tester","prompt":"x"}`: "tester", `{"agent_type":"tester"}`: "tester", `{"agent":"tester"}`: "tester",
		`{"subagent_type":"","agent":"b"}`: "b", `{"subagent_type":5}`: "", `{}`: "", `[]`: "", ``: "", `{"prompt":"tester"}`: "",
	} {
		if got := subagentIn([]byte(args), ""); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	for args, want := range map[string]string{ // the agent ignores other arguments, and starts its usual subagent
		`{"subagent_type":"tester","agent":"other"}`: "tester", `{"agent":"tester"}`: "", `{"subagent_type":"","agent":"tester"}`: "", `{"agent_type":"tester","subagent_type":"other"}`: "other",
	} {
		if got := subagentIn([]byte(args), "subagent_type"); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
}

// The number of calls that a governor remembers is limited, even if the agent
// never ends its calls.
func TestGovernorForgetsWhatIsOver(t *testing.T) {
	g := newGovernor(slog.New(slog.DiscardHandler), "s", script.New())
	g.begin(constraints{profile: &profile.Profile{Name: "p", DisallowedTools: []string{"Bash"}}})
	for i := range 3 * maxWatched {
		call := fmt.Sprint(i)
		g.annotate(event.Event{Body: event.ItemStart{ItemType: event.TypeFunctionCall, CallID: call, Name: "Bash"}})
		if i >= maxWatched {
			continue
		}
		out := event.ItemDone{FinalItem: event.FunctionCallOutput{CallID: call}}
		if n := g.annotate(event.Event{Body: out}); len(n) != 1 {
			t.Fatalf("call %d: %v", i, n)
		}
		if n := g.annotate(event.Event{Body: out}); len(n) != 0 {
			t.Fatalf("call %d, again: %v", i, n)
		}
	}
	if len(g.watched) > maxWatched {
		t.Errorf("%d calls are remembered", len(g.watched))
	}
}

// A session whose profile was deleted rejects prompts. Clients can still read
// and end it, even after a restart of the server.
func TestSessionWithoutItsProfileCanBeEnded(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	file := filepath.Join(dir, "p.md")
	if err := os.WriteFile(file, []byte("---\ndisallowed_tools: [Bash]\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	profiles := func(c *Config) { c.ProfilesDir = dir }
	g := d.open(t, profiles)
	var ids []string
	for range 2 {
		st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{}, "p")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, st.SessionID)
	}
	closeIt(t, g)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	g = d.open(t, profiles)
	defer closeIt(t, g)
	if list, err := g.List(t.Context(), Filter{}); err != nil || len(list) != 2 || list[0].Persona != "p" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if _, err := g.Send(t.Context(), ids[0], Prompt{Text: "text"}); runnel.CodeOf(err) != runnel.PersonaNotFound {
		t.Errorf("sent: %v", err)
	}
	if err := g.Kill(t.Context(), ids[0]); err != nil {
		t.Errorf("killed: %v", err)
	}
	if err := g.Delete(t.Context(), ids[1]); err != nil {
		t.Errorf("deleted: %v", err)
	}
}
