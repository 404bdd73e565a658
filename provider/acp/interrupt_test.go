package acp

import (
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// If an agent reports a turn as cancelled although nobody cancelled it, the
// turn ends with an error, live and in a replay. No item is cancelled with the
// reason that the user cancelled it.
func TestTurnThatTheAgentInterruptsUnaskedIsAnError(t *testing.T) {
	lines := withBegun(chunkOf("half of an ans"), out(`{"jsonrpc":"2.0","id":"prompt:`+testTurn+`","result":{"stopReason":"cancelled"}}`))
	evs, _ := run(t, lines...)
	var replayed []event.Event
	each := func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
	for ev, err := range runnel.Replay("s", "mine", each) {
		if err != nil {
			t.Fatal(err)
		}
		replayed = append(replayed, ev)
	}
	live := recordtest.Live(t, "mine", []recordtest.Step{{At: fixtureStart, Prompt: &runnel.Input{Turn: testTurn, Text: "go"}}, {At: fixtureStart, Events: evs}}, recordtest.OneByOne)
	for name, evs := range map[string][]event.Event{"replayed": replayed, "live": live} {
		i := slices.IndexFunc(evs, func(ev event.Event) bool { return event.Ends(ev.Body) })
		if b, ok := evs[i].Body.(event.ResponseError); !ok || b.Error.Code != string(runnel.AgentError) {
			t.Errorf("%s: the turn ended as %+v", name, evs[i].Body)
		}
		for _, ev := range evs {
			if b, ok := ev.Body.(event.ItemCancelled); ok && b.Reason == event.ReasonUserCancel {
				t.Errorf("%s: %+v, but the user cancelled nothing", name, b)
			}
		}
	}
}
