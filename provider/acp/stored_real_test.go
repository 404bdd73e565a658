package acp

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// The text of a conversation that Runnel reads for the search has the items
// that the agent replays when the conversation is opened. Without RUNNEL_LONG=1,
// TestStoredConversationHasTheItemsOfTheLiveOne compares the text of opencode
// with a recording only, because opencode starts slowly.
func TestStoredTextHasTheItemsOfTheAgentsReplay(t *testing.T) {
	storing := []string{"copilot"}
	if os.Getenv("RUNNEL_LONG") != "" {
		storing = append(storing, "opencode")
	}
	eachOf(t, storing, func(t *testing.T, r *rig) {
		r.Write("b.txt", "one\ntwo\nthree\n")
		w := r.words()
		steps := []fakemodel.Step{
			calls(w.Shell("echo hi"), w.Read(r.File("b.txt"))),
			calls(w.Read(r.Home.Project)),
			calls(w.Edit(r.File("b.txt"), "two", "TWO")),
			calls(w.Write(r.File("made.txt"), "made\n")),
			calls(fakemodel.Call("grep", args{"pattern": "one", "path": r.Home.Project})),
			calls(fakemodel.Call("glob", args{"pattern": "*.txt"})),
			calls(w.Read(r.File("none.txt"))),
			calls(w.Plan("Look", "Leap")),
			calls(fakemodel.Call("report_intent", args{"intent": "Reporting"})),
			calls(w.Shell("exit 3")),
			said,
		}
		steps[0].Text = "Working."
		r.plays(steps...)
		r.Finish(once)
		r.plays(says("The end."))
		r.Finish("")
		id := r.Conn.(*conn).tr.session.id
		r.Close()
		if r.Agent.Name == "opencode" {
			r.lists(id, "The end.")
		}
		var replayed []event.Event
		for ev, err := range r.Provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: r.Home.Project}) {
			if err != nil {
				t.Fatal(err)
			}
			replayed = append(replayed, ev)
		}
		stored := history(t, r.Provider, id)
		closed(t, stored)
		if d := cmp.Diff(placedItems(replayed), placedItems(stored)); d != "" {
			t.Errorf("the replay and the stored text differ:\n%s", d)
		}
	})
}
