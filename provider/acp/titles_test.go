package acp

import (
	"bytes"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// If the agent rejects the title, as it may while a turn starts, the turn goes
// on, and the next prompt sets the title again.
func TestRejectedTitleIsSetAgain(t *testing.T) {
	tr := newTranslator(known(t, "codex-acp"))
	feed(tr, withBegun(in(`{"jsonrpc":"2.0","id":7,"method":"session/set_title","params":{"sessionId":"s1","title":"Go"}}`))...)
	if tr.session.untitled {
		t.Error("the conversation counts as untitled after its title was set")
	}
	evs, replies := feed(tr, out(`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"disk full"}}`))
	if len(replies) != 0 || len(bodies[event.Notice](evs)) != 0 {
		t.Errorf("replies %q, events %v", replies, evs)
	}
	feed(tr, out(`{"jsonrpc":"2.0","id":"prompt:`+testTurn+`","result":{"stopReason":"end_turn"}}`))
	saved, ok := tr.Checkpoint()
	again := newTranslator(known(t, "codex-acp"))
	if err := again.Restore(saved); !ok || err != nil || !again.session.untitled {
		t.Errorf("after a restart: untitled %v, %v, %v", again.session.untitled, ok, err)
	}
}

// Codex's adapter asks a model for a title in a thread of its own. Its tools run
// as the user's settings say, and not as the session's permission mode says.
func TestNoThreadOfItsOwnMakesTheTitle(t *testing.T) {
	eachOf(t, []string{"codex-acp"}, func(t *testing.T, r *rig) {
		r.Open()
		var evs []event.Event
		turn := func(text string) {
			t.Helper()
			r.Input(runnel.Text(text))
			evs = append(evs, r.FinishTurn("")...)
		}
		turn("Rename the file")
		turn("Thanks")
		opt := r.Opt
		opt.Resume = r.Conn.(*conn).tr.session.id
		r.Close()
		c, err := r.Provider.(runnel.Forker).Fork(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		r.Takes(c)
		turn("Once more")
		turn("Thanks again")
		for _, q := range r.Model.Requests() {
			if bytes.Contains(q.Body, []byte("generate a very short title")) {
				t.Errorf("the agent asks for a title: %.200s … %s", q.Body, q.Body[max(len(q.Body)-900, 0):])
			}
		}
		prompts := []string{"Rename the file", "Thanks", "Once more", "Thanks again"} // the agent may reject a title while a turn starts
		shown := 0
		for _, b := range bodies[event.SessionUpdated](evs) {
			if b.Title == "" {
				continue
			}
			if shown++; !slices.Contains(prompts, b.Title) {
				t.Errorf("the title is %q", b.Title)
			}
		}
		if shown == 0 {
			t.Error("no title")
		}
	})
}
