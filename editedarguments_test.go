package runnel_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// The item of a call has the arguments for which the agent asked. Readers would
// take them for what ran.
func TestTurnShowsArgumentsThatAnApprovalChanged(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		shown bool
	}{
		"other arguments": {`{"command":"ls -l"}`, true},
		"the same":        {` { "command": "ls" } `, false},
		"none":            {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := open(t, runnel.Config{}, script.Step{Tool: &script.Tool{
					Name: "Bash", Arguments: json.RawMessage(`{"command":"ls"}`), Output: "ok", Ask: &script.Ask{Title: "ls", Editable: true},
				}})
				turn := send(t, s)
				synctest.Wait()
				a := s.Status().Pending[0]
				if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest, UpdatedArguments: json.RawMessage(c.args)}); err != nil {
					t.Fatal(err)
				}
				if _, err := turn.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				shows := func(ev event.Event) bool {
					n, ok := ev.Body.(event.Notice)
					return ok && n.Code == "ARGUMENTS_EDITED" && strings.Contains(n.Message, "Bash") && strings.Contains(n.Message, c.args)
				}
				var evs []event.Event
				for ev, err := range log.Read(t.Context(), "s", 0) {
					if err != nil {
						t.Fatal(err)
					}
					evs = append(evs, ev)
				}
				if got := slices.ContainsFunc(evs, shows); got != c.shown {
					t.Errorf("shown %v, want %v", got, c.shown)
				}
			})
		})
	}
}
