package runnel_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// annotator returns a Config.Annotate that records the types of its events in
// *seen. It returns notices for every resolved approval, for the start of every
// item and for the end of the turn.
func annotator(seen *[]string) func(event.Event) []event.Notice {
	return func(ev event.Event) []event.Notice {
		*seen = append(*seen, event.Type(ev.Body))
		switch b := ev.Body.(type) {
		case event.ApprovalResolved:
			return []event.Notice{{Level: event.LevelInfo, Code: "RESOLVED", Message: b.Reason}}
		case event.ItemStart:
			return []event.Notice{{Level: event.LevelWarning, Code: "STARTED", Message: b.Name}, {Level: event.LevelInfo, Code: "AND", Message: "more"}}
		case event.ResponseDone:
			return []event.Notice{{Level: event.LevelInfo, Code: "LATE", Message: "behind the end"}}
		}
		return nil
	}
}

func TestNoticesFollowTheEventThatTheyAreAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen, got []string
		s, log := open(t, runnel.Config{Annotate: annotator(&seen), Judge: func(_ context.Context, a event.Approval) (runnel.Decision, bool) {
			return runnel.Decision{Choice: "deny", Reason: "why"}, true
		}}, ask)
		if _, err := send(t, s).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			what := event.Type(ev.Body)
			if n, ok := ev.Body.(event.Notice); ok {
				what = n.Code + " " + n.Message
			}
			got = append(got, what)
		}
		want := []string{
			"item_start", "item_done", "response_start", "session_updated", // no notice may precede the response
			"item_start", "STARTED Bash", "AND more", "item_delta", "item_done", "approval_requested", "approval_resolved", "RESOLVED why",
			"item_start", "STARTED ", "AND more", "item_done", "response_done",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"response_start", "session_updated", "item_start", "item_delta", "item_done", "approval_requested", "approval_resolved", "item_start", "item_done"}, seen); d != "" {
			t.Error(d)
		}
	})
}

// After a takeover, Annotate first receives the logged events of the turn.
// Notices that are in the log are not repeated.
func TestNoticesGoOnAfterATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{ask}}}}
		log := new(runnel.Memory)
		var before, after []string
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Annotate: annotator(&before)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(s.Status().Pending) != 1 || !s.Detach(t.Context()) {
			t.Fatal("the agent asks nothing, or cannot be left")
		}
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true, Annotate: annotator(&after)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Contains(after, "item_start") || slices.Contains(after, "approval_resolved") {
			t.Errorf("it saw %q of the log", after)
		}
		play(t, s, func() bool { return false })
		got := trace(t, log, "s")
		if n := strings.Count(got, "STARTED"); n != strings.Count(got, `"type":"item_start"`)-1 || strings.Count(got, "RESOLVED") != 1 {
			t.Errorf("%d notices in\n%s", n, got)
		}
		_ = s.Close()
	})
}
