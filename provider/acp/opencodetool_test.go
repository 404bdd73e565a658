package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Rules allow and deny calls by the name of the tool.
func TestToolsOfMCPServersOfOpencodeHaveTheirNames(t *testing.T) {
	r := newRig(t, "opencode")
	marks := r.MarkedMCP()
	r.Open()
	r.Play(said)
	r.FinishTurn("")
	agentrig.Await(t, marks.Listed)
	r.Play(calls(fakemodel.Call("t_add", args{"a": 1})), said)
	asked := r.Asked()
	if asked.ToolName != "t_add" {
		t.Errorf("the question is about %q", asked.ToolName)
	}
	r.Decide(asked, runnel.Decision{Choice: translate.AllowOnce})
	named := func(evs []event.Event) (names []string) {
		for _, b := range bodies[event.ItemDone](evs) {
			if f, ok := b.FinalItem.(event.FunctionCall); ok {
				names = append(names, f.Name)
			}
		}
		return names
	}
	if got := named(r.FinishTurn("")); len(got) != 1 || got[0] != "t_add" {
		t.Errorf("live: %q", got)
	}
	id := r.Conn.(*conn).tr.session.id
	r.Close()
	var replayed []event.Event
	for ev, err := range r.Provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: r.Home.Project}) {
		if err != nil {
			t.Fatal(err)
		}
		replayed = append(replayed, ev)
	}
	for where, evs := range map[string][]event.Event{"replayed": replayed, "stored": history(t, r.Provider, id)} {
		if got := named(evs); len(got) != 1 || got[0] != "t_add" {
			t.Errorf("%s: %q", where, got)
		}
	}
}

// The model chooses the words in many titles, and must not choose the name by which a
// rule allows a call.
func TestTitleOfOpencodeNamesNoOtherTool(t *testing.T) {
	for _, tt := range []struct{ title, kind, status, input, want string }{
		{"t_add", "other", "pending", `{}`, "t_add"},
		{"t_add", "other", "pending", `{"a":1}`, "t_add"},
		{"t_add", "other", "", `{}`, "t_add"},
		{"t_add", "other", "", `{"command":"t_add"}`, "other"}, // a question about another directory
		{"read", "other", "", `{"command":"read"}`, "other"},
		{"todowrite", "other", "", `{"command":"todowrite"}`, "other"},
		{"read", "edit", "", `{"filepath":"read"}`, "edit"},
		{"read", "edit", "completed", `{"filePath":"read","content":""}`, "write"},
		{"t_add", "think", "completed", `{"description":"t_add"}`, "think"},
		{"t_add", "search", "completed", `{"pattern":"t_add"}`, "search"},
		{"Web search: t_add", "other", "completed", `{}`, "other"},
		{"task", "think", "pending", `{}`, "task"},
	} {
		if got := opencodeTool(toolCall{Title: tt.title, ToolKind: tt.kind, Status: tt.status, RawInput: json.RawMessage(tt.input)}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// An answer for the session reaches further than the call.
func TestQuestionsOfOpencodeSayWhatAnAnswerForTheSessionAllows(t *testing.T) {
	r := newRig(t, "opencode")
	r.Play(calls(r.words().Shell("touch one")), said)
	asked := r.Asked()
	if !strings.Contains(asked.Why, "begin with the same words") {
		t.Errorf("why: %q", asked.Why)
	}
	r.Decide(asked, runnel.Decision{Choice: translate.AllowSession})
	r.FinishTurn("")
	r.Play(calls(r.words().Shell("touch two")), said)
	if _, again := r.DenyAll(); again != 0 {
		t.Errorf("%d questions", again)
	}
	r.Opt.Resume = r.Conn.(*conn).tr.session.id
	r.Close()
	r.Open()
	r.Play(calls(r.words().Shell("touch three")), said)
	if _, again := r.DenyAll(); again != 1 {
		t.Errorf("in another process: %d questions", again)
	}
}
