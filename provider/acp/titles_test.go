package acp

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// The agent stores a conversation once it has a title. One without a prompt,
// such as that of an agent that was started early, stores nothing.
func TestConversationWithoutPromptIsNotStored(t *testing.T) {
	eachOf(t, []string{"codex-acp"}, func(t *testing.T, r *rig) {
		r.Open()
		r.Close()
		if files, err := filepath.Glob(filepath.Join(r.Home.Codex, "sessions", "*", "*", "*", "*")); err != nil || len(files) > 0 {
			t.Errorf("%q, %v", files, err)
		}
	})
}

// If the agent rejects the title, the turn is cancelled, and the next prompt
// sets the title again.
func TestTurnWithoutTitleIsCancelled(t *testing.T) {
	tr := newTranslator(known(t, "codex-acp"))
	title := in(`{"jsonrpc":"2.0","id":7,"method":"session/set_title","params":{"sessionId":"s1","title":"Go"}}`)
	feed(tr, withBegun(title)...)
	if tr.session.untitled {
		t.Error("the conversation counts as untitled after its title was set")
	}
	evs, replies := feed(tr, out(`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"disk full"}}`))
	if len(replies) != 1 || !strings.Contains(replies[0], methodCancel) {
		t.Errorf("replies: %q", replies)
	}
	if n := bodies[event.Notice](evs); len(n) != 1 || n[0].Code != "TITLE_REJECTED" {
		t.Errorf("notices: %+v", n)
	}
	feed(tr, out(`{"jsonrpc":"2.0","id":"prompt:`+testTurn+`","result":{"stopReason":"cancelled"}}`))
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
		var titles []string
		for _, b := range bodies[event.SessionUpdated](evs) {
			if b.Title != "" {
				titles = append(titles, b.Title)
			}
		}
		if got := strings.Join(titles, "; "); got != "Rename the file" && got != "Rename the file; Once more" {
			t.Errorf("titles: %q", titles)
		}
	})
}
