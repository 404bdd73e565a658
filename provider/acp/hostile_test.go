package acp

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// told reports whether the model was told something.
func (r *rig) told(what string) bool {
	return slices.ContainsFunc(r.model.Requests(), func(req fakemodel.Request) bool { return bytes.Contains(req.Body, []byte(what)) })
}

// refuse collects the events to the end of the turn, and allows nothing.
func (r *rig) refuse() []event.Event {
	r.t.Helper()
	return r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			no := event.ChoiceDeny
			if !slices.ContainsFunc(a.Approval.Choices, func(c event.Choice) bool { return c.Kind == no }) {
				no = event.ChoiceDenyStop
			}
			r.decide(a.Approval, no)
		}
		return event.Ends(ev.Body)
	})
}

func TestC06_RepositoryThatMeansHarm(t *testing.T) {
	for _, name := range realagents.ACP() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, name)
			elsewhere, err := fakemodel.Start(fakemodel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer elsewhere.Close()
			trap := r.home.Trap(t, elsewhere.URL())
			r.send(fakemodel.Scenario{Steps: []fakemodel.Step{calls(realagents.WordsOf(name).Ask("touch asked")), said}}.Prompt("go"))
			evs := r.refuse()
			if !slices.ContainsFunc(evs, func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok }) {
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
			for _, what := range []string{realagents.Canary, realagents.Memory} {
				if r.told(what) {
					t.Errorf("the model was told %s", what)
				}
			}
		})
	}
}
