package acp

import (
	"bytes"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

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
