package codex

import (
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// TestFollowedItemsKeepTheirIDs follows a turn of another process whose second
// command ends before its first one. Codex stores the first one later, with an
// earlier start.
func TestFollowedItemsKeepTheirIDs(t *testing.T) {
	r := newRig(t)
	r.Play(calls(shell("until [ -e go ]; do sleep 0.05; done; echo first"), shell("until [ -e early ]; do sleep 0.05; done; echo second")), says("Both."))
	started := 0
	r.Until(func(ev event.Event) bool {
		if b, ok := ev.Body.(event.ItemStart); ok && b.ItemType == event.TypeFunctionCall {
			started++
		}
		return started == 2
	})
	f, err := r.provider().(runnel.Follower).Follow(t.Context(), runnel.Conversation{AgentSessionID: r.Conn.(*conn).tr.thread})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var evs []event.Event
	shows := func(output string) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond) // the follower is polled
		defer tick.Stop()
		for deadline := time.Now().Add(waitTimeout); ; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("%q is not shown\n%s", output, dump(evs))
			}
			more, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			evs = append(evs, more...)
			for _, done := range bodies[event.ItemDone](evs) {
				if out, ok := done.FinalItem.(event.FunctionCallOutput); ok && out.Output == output {
					return
				}
			}
		}
	}
	r.Write("early", "")
	shows("second\n")
	r.Write("go", "")
	shows("first\n")
	r.FinishTurn("")
	sound(t, evs)
	calls := make(map[string]string)
	for _, done := range bodies[event.ItemDone](evs) {
		if c, ok := done.FinalItem.(event.FunctionCall); ok {
			if was := calls[c.CallID]; was != "" {
				t.Errorf("%s is shown as %s and as %s", c.CallID, was, done.ItemID)
			}
			calls[c.CallID] = done.ItemID
		}
	}
	if len(calls) != 2 {
		t.Errorf("%d calls, want 2\n%s", len(calls), dump(evs))
	}
}
