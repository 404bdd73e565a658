package runnel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// facts are events that agents report directly after the end of a turn.
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

// replayed returns the events that Replay yields for evs.
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

func TestFactsAfterTurnEndAreLogged(t *testing.T) {
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

// A turn without a prompt begins during a prompt's turn and ends before it.
func TestReplayKeepsOverlappingTurns(t *testing.T) {
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

// A prompt is sent only while no other prompt's turn runs. Replay therefore
// ends the previous turn even if its end is missing.
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

// For any output of an agent, a live session logs the events that Replay
// yields, at the same positions, whether they arrive one by one or all at once.
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
			for _, of := range []string{turn, "own"} { // ends both turns, because the next prompt waits for them
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

// liveBody is like anyBody without two kinds of events that Replay treats
// differently from a session. A session accepts a cancelled end only if the
// user cancelled the turn, and Replay always does. A prompt in an agent's own
// turn counts as a prompt only for Replay.
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

func TestTextOfAnItemIsBounded(t *testing.T) {
	at := recordtest.Start
	piece := strings.Repeat("ü", 1<<20)
	evs := append(promptOf(at, "T", "go"), event.Event{At: at, Turn: "T", Body: event.ResponseStart{}},
		event.Event{At: at, Turn: "T", Body: event.ItemStart{ItemID: "T:1:0", ItemType: event.TypeMessage, InitialContent: "x"}})
	for range 5 {
		evs = append(evs, event.Event{At: at, Turn: "T", Body: event.ItemDelta{ItemID: "T:1:0", DeltaContent: piece}})
	}
	whole := event.Message{Origin: event.OriginAgent, Content: "x" + strings.Repeat(piece, 5)}
	evs = append(evs, event.Event{At: at, Turn: "T", Body: event.ItemDone{ItemID: "T:1:0", FinalItem: whole}},
		event.Event{At: at, Turn: "T", Body: event.ResponseDone{Status: event.StatusCompleted}})
	var streamed strings.Builder
	for _, ev := range replayed(t, evs) {
		switch b := ev.Body.(type) {
		case event.ItemStart:
			streamed.WriteString(b.InitialContent)
		case event.ItemDelta:
			streamed.WriteString(b.DeltaContent)
		case event.ItemDone:
			m := b.FinalItem.(event.Message)
			if m.Origin == event.OriginAgent && (len(m.Content) > event.MaxText || m.Content != streamed.String()) {
				t.Errorf("%d bytes were streamed, and the whole has %d; at most %d are allowed", streamed.Len(), len(m.Content), event.MaxText)
			}
		}
	}
	if n := streamed.Len(); n < event.MaxText-1 {
		t.Errorf("only %d bytes were streamed", n)
	}
}

func TestFinalTextIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn := send(t, s)
		for _, b := range []event.Body{
			event.ResponseStart{},
			event.ItemDone{ItemID: turn.ID + ":1:0", FinalItem: event.Message{Origin: event.OriginAgent, Content: strings.Repeat("x", event.MaxText+1)}},
			event.ResponseDone{Status: event.StatusCompleted, FinishReason: strings.Repeat("x", 5<<20)},
		} {
			agent.events <- event.Event{Turn: turn.ID, Body: b}
		}
		res, err := turn.Wait(t.Context())
		if err != nil || len(res.FinalText) != event.MaxText || len(res.Reason) > event.MaxTitle {
			t.Errorf("%v; a final text of %d bytes, a reason of %d", err, len(res.FinalText), len(res.Reason))
		}
	})
}

// A conversation id that is too long is dropped and never shortened, because a
// part of it may be the id of another conversation.
func TestValueThatIsTooLongIsLeftOutWithANotice(t *testing.T) {
	at := recordtest.Start
	long := event.SessionUpdated{AgentSessionID: strings.Repeat("x", 5<<20)}
	evs := append([]event.Event{{At: at, Body: long}}, promptOf(at, "T", "go")...)
	evs = append(evs, event.Event{At: at, Turn: "T", Body: event.ResponseStart{}}, event.Event{At: at, Turn: "T", Body: long})
	notices := 0
	for _, ev := range replayed(t, evs) {
		switch b := ev.Body.(type) {
		case event.SessionUpdated:
			t.Errorf("an update with an id of %d bytes", len(b.AgentSessionID))
		case event.Notice:
			if b.Code != "VALUE_TOO_LONG" || !strings.Contains(b.Message, "agentSessionId") {
				t.Errorf("notice %+v", b)
			}
			notices++
		}
	}
	if notices != 2 {
		t.Errorf("%d notices, want one for each", notices)
	}
}

func TestInstallationIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	in := runnel.Installation{
		Path: long, Version: long, Problem: long, Modes: []string{long, "default"},
		Models: []runnel.Model{{ID: long}, {ID: "m", Name: long, Description: long}},
		Config: []event.ConfigOption{{ID: long}, {ID: "o", Name: long, Type: event.ConfigBoolean}},
	}.Bounded()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if found := recordtest.TooLong(t, text); len(found) > 0 || len(in.Models) != 1 || len(in.Modes) != 1 || len(in.Config) != 1 {
		t.Errorf("too long: %q; %d models, %d modes, %d options", found, len(in.Models), len(in.Modes), len(in.Config))
	}
}
