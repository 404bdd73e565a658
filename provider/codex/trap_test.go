package codex

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// wasTold reports whether the model was shown something.
func (r *rig) wasTold(what string) bool {
	return slices.ContainsFunc(r.model.Requests(), func(req fakemodel.Request) bool { return bytes.Contains(req.Body, []byte(what)) })
}

// refuse collects the events to the end of the turn, and allows nothing.
func (r *rig) refuse() (evs []event.Event, asked int) {
	r.t.Helper()
	evs = r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			asked++
			i := slices.IndexFunc(a.Approval.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceDeny || c.Kind == event.ChoiceDenyStop })
			if i < 0 {
				r.t.Fatalf("no way to deny: %+v", a.Approval.Choices)
			}
			r.decide(a.Approval, runnel.Decision{Choice: a.Approval.Choices[i].ID})
		}
		return event.Ends(ev.Body) && ev.Turn == r.turn
	})
	return evs, asked
}

func TestC06_RepositoryThatMeansHarm(t *testing.T) {
	r := newRig(t)
	elsewhere, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	trap := r.home.Trap(t, elsewhere.URL())
	r.play(calls(escalated("touch asked")), says("ok"))
	evs, asked := r.refuse()
	if asked == 0 {
		t.Errorf("nobody was asked:\n%s", dump(evs))
	}
	if _, err := os.Stat(r.file("asked")); err == nil {
		t.Error("the folder allowed what nobody allowed")
	}
	r.conn.Close()
	if ran := trap.Ran(); ran != nil {
		t.Errorf("of the folder ran %q", ran)
	}
	for _, req := range elsewhere.Requests() {
		t.Errorf("went elsewhere: %s %s", req.Method, req.Path)
	}
	if r.wasTold(realagents.Canary) {
		t.Error("the model was shown a file outside of the folder")
	}
	for _, q := range r.model.Requests() { // how a folder describes its skills is all that it reads
		rest := q.Body
		for _, skill := range []string{"evil: ", "evil2: "} {
			rest = bytes.ReplaceAll(rest, []byte(skill+realagents.Memory), nil)
		}
		if i := bytes.Index(rest, []byte(realagents.Memory)); i >= 0 {
			t.Errorf("the model was shown what the folder says: %.400s", rest[max(i-200, 0):])
		}
	}
	// The same folder, trusted: what it says counts.
	r.opt.Trusted = true
	r.open()
	tick := time.NewTicker(50 * time.Millisecond) // it is started beside the conversation
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(trap.Ran()) == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("nothing ran in the folder that is trusted")
		}
	}
}
