package runnel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// facts are what agents report right behind the end of a turn.
var facts = []event.Body{
	event.Notice{Level: event.LevelInfo, Code: "TASK_ENDED", Message: "A task in the background has ended."},
	event.SessionUpdated{AgentSessionID: "moved"},
	event.SessionUpdated{Title: "A title"},
	event.UsageUpdated{RateLimit: &event.RateLimit{Status: "allowed"}},
}

// promptOf returns the events with which a translator reports a prompt.
func promptOf(at time.Time, turn, text string) []event.Event {
	id := runnel.UserItemID(turn)
	return []event.Event{
		{At: at, Turn: turn, Body: event.ItemStart{ItemID: id, ItemType: event.TypeMessage}},
		{At: at, Turn: turn, Body: event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: event.OriginUser}}},
	}
}

// replayed returns what Replay makes of events.
func replayed(t *testing.T, evs []event.Event) (out []event.Event) {
	t.Helper()
	for ev, err := range runnel.Replay(recordtest.Session, "p", all(evs)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

func TestFactsBehindTheEndOfATurnAreLogged(t *testing.T) {
	at := recordtest.Start
	printed := []event.Event{
		{At: at, Turn: "T", Body: event.ResponseStart{}},
		{At: at, Turn: "T", Body: event.ResponseDone{Status: event.StatusCompleted}},
	}
	for _, fact := range facts {
		printed = append(printed, event.Event{At: at, Body: fact})
	}
	want := replayed(t, append(promptOf(at, "T", "go"), printed...))
	if n := len(want); n != 4+len(facts) || want[n-1].Turn != "" {
		t.Fatalf("Replay has %d events, the last %+v", n, want[n-1])
	}
	steps := []recordtest.Step{{At: at, Prompt: &runnel.Input{Turn: "T", Text: "go"}}, {At: at, Events: printed}}
	for _, batching := range []recordtest.Batching{recordtest.OneByOne, recordtest.AtOnce} {
		if d := cmp.Diff(want, recordtest.Live(t, "p", steps, batching)); d != "" {
			t.Errorf("at once %v (-replayed +live):\n%s", batching, d)
		}
	}
}

// A turn that nobody asked for begins beside a prompt's and ends before it.
func TestReplayKeepsTurnsBesideEachOther(t *testing.T) {
	at := recordtest.Start
	evs := append(promptOf(at, "T", "go"),
		event.Event{At: at, Turn: "T", Body: event.ResponseStart{}},
		event.Event{At: at, Turn: "own", Body: event.ResponseStart{}},
		event.Event{At: at, Turn: "own", Body: event.ResponseDone{Status: event.StatusCompleted}},
		event.Event{At: at, Turn: "T", Body: event.ItemDone{ItemID: "T:1:0", FinalItem: event.Message{Content: "It is done.", Origin: event.OriginAgent}}},
		event.Event{At: at, Turn: "T", Body: event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{InputTokens: 7}}},
	)
	out := replayed(t, evs)
	last := out[len(out)-1]
	if done, ok := last.Body.(event.ResponseDone); !ok || last.Turn != "T" || done.Status != event.StatusCompleted || done.Usage == nil {
		t.Errorf("the prompt's turn ends as %+v", last)
	}
	if said := out[len(out)-2].Body.(event.ItemDone); said.FinalItem.(event.Message).Content != "It is done." {
		t.Errorf("its text: %+v", said)
	}
}

// A prompt is sent only while no other prompt's turn runs, so the turn before it
// ended even if its end is missing.
func TestReplayEndsAPromptsTurnAtTheNextPrompt(t *testing.T) {
	at := recordtest.Start
	evs := append(promptOf(at, "T1", "one"), event.Event{At: at, Turn: "T1", Body: event.ResponseStart{}})
	evs = append(evs, promptOf(at, "T2", "two")...)
	var order []string
	for _, ev := range replayed(t, evs) {
		order = append(order, ev.Turn+" "+event.Type(ev.Body))
	}
	want := "[T1 item_start T1 item_done T1 response_start T1 response_error T2 item_start T2 item_done T2 response_start T2 response_error]"
	if got := fmt.Sprint(order); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whatever an agent prints, a live session logs what Replay gives, at the same
// positions, whether the events come one by one or all at once.
func TestLiveSessionLogsWhatReplayGives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := recordtest.Start
		var steps []recordtest.Step
		var evs []event.Event
		for n := range rapid.IntRange(1, 3).Draw(rt, "prompts") {
			turn := fmt.Sprint("T", n)
			evs = append(evs, promptOf(at, turn, "go")...)
			steps = append(steps, recordtest.Step{At: at, Prompt: &runnel.Input{Turn: turn, Text: "go"}}, recordtest.Step{At: at})
			printed := &steps[len(steps)-1].Events
			for range rapid.IntRange(0, 12).Draw(rt, "events") {
				of := rapid.SampledFrom([]string{"", "", turn, turn, turn, "own"}).Draw(rt, "turn")
				*printed = append(*printed, event.Event{At: at, Turn: of, Body: liveBody(rt, of)})
			}
			for _, of := range []string{turn, "own"} { // the next prompt has to wait for both
				*printed = append(*printed, event.Event{At: at, Turn: of, Body: event.ResponseDone{Status: event.StatusCompleted}})
			}
			*printed = append(*printed, event.Event{At: at, Body: facts[n]})
			evs = append(evs, *printed...)
		}
		want := replayed(t, evs)
		for _, batching := range []recordtest.Batching{recordtest.OneByOne, recordtest.AtOnce} {
			if d := cmp.Diff(want, recordtest.Live(t, "p", steps, batching)); d != "" {
				rt.Fatalf("at once %v (-replayed +live):\n%s", batching, d)
			}
		}
	})
}

// liveBody is anyBody without two things that mean something else to Replay: an
// end as cancelled, which Replay believes and a session does not unless the user
// asked for it, and a prompt that the agent made up for a turn of its own.
func liveBody(t *rapid.T, turn string) event.Body {
	b := anyBody(t, turn)
	if done, ok := b.(event.ResponseDone); ok && done.Status == event.StatusCancelled {
		return event.ResponseDone{Status: event.StatusCompleted}
	}
	if start, ok := b.(event.ItemStart); ok && start.ItemID == runnel.UserItemID("own") {
		return event.ItemDelta{ItemID: start.ItemID}
	}
	return b
}
