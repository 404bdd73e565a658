package runnel_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// anyBody draws an event that a confused or hostile agent might send.
func anyBody(t *rapid.T, turn string) event.Body {
	id := turn + ":" + rapid.SampledFrom([]string{"0:0", "1:0", "1:1", "2:0"}).Draw(t, "id")
	call := rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "call")
	finals := []event.FinalItem{
		nil, event.Message{Origin: event.OriginAgent}, event.Message{Content: "x", Origin: "martian"}, event.Plan{},
		event.FunctionCall{Name: "n", CallID: call, Arguments: []byte(`{}`)}, event.FunctionCall{Name: "n", CallID: "c1", Arguments: []byte(`{`)},
		event.FunctionCallOutput{CallID: call}, event.Reasoning{},
	}
	types := []event.ItemType{event.TypeMessage, event.TypeReasoning, event.TypeFunctionCall, event.TypeFunctionCallOutput, event.TypePlan, "poem"}
	approval := event.Approval{ID: rapid.SampledFrom([]string{"", "a1", "a2"}).Draw(t, "approval"), Kind: event.ApprovalTool, Choices: []event.Choice{{ID: "yes"}}}
	return rapid.SampledFrom([]event.Body{
		nil, event.ResponseStart{ProviderID: "p"}, event.ResponseStart{},
		event.ItemStart{ItemID: id, ItemType: rapid.SampledFrom(types).Draw(t, "type"), CallID: call, Name: call},
		event.ItemDelta{ItemID: id}, event.ItemDelta{},
		event.ItemDone{ItemID: id, FinalItem: rapid.SampledFrom(finals).Draw(t, "final")},
		event.ItemError{ItemID: id, Error: event.Fault{Code: "X"}}, event.ItemCancelled{ItemID: id},
		event.ApprovalRequested{Approval: approval},
		event.ApprovalResolved{ApprovalID: approval.ID, Choice: "yes", By: event.ByUser},
		event.SessionUpdated{Title: "t"}, event.UsageUpdated{}, event.Notice{Level: event.LevelInfo, Code: "N"}, event.Notice{},
		event.ResponseDone{Status: rapid.SampledFrom([]event.TurnStatus{event.StatusCompleted, event.StatusCancelled, event.StatusError, "fine"}).Draw(t, "status")},
		event.ResponseError{}, event.ResponseError{Error: event.Fault{Code: "X"}},
	}).Draw(t, "body")
}

// Whatever events an agent emits, the log follows the rules of a turn.
func TestReplayEnforcesTurnRulesOnAnyEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "n")
		evs := make([]event.Event, n)
		for i := range evs {
			turn := rapid.SampledFrom([]string{"", "T1", "T1", "T1", "T2"}).Draw(rt, "turn")
			evs[i] = event.Event{At: time.Unix(int64(i), 0), Turn: turn, Body: anyBody(rt, turn)}
		}
		log := new(runnel.Memory)
		providertest.Record(t, log, "s", runnel.Replay("s", "p", all(evs)))
		providertest.CheckLog(t, log, "s")
		if t.Failed() {
			rt.Fatalf("%v", evs)
		}
		st, _ := log.State(t.Context(), "s")
		if len(st.Open) > 0 {
			rt.Fatalf("turns without end: %v", st.Open)
		}
	})
}

func all(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func TestReplayOfABrokenSourceIsClosed(t *testing.T) {
	broken := func(yield func(event.Event, error) bool) {
		if yield(event.Event{Turn: "T", Body: event.ResponseStart{}}, nil) {
			yield(event.Event{}, fmt.Errorf("the file is torn"))
		}
	}
	var types []string
	var last error
	for ev, err := range runnel.Replay("s", "p", broken) {
		if last = err; err == nil {
			types = append(types, event.Type(ev.Body))
		}
	}
	if fmt.Sprint(types) != "[response_start response_error]" || runnel.CodeOf(last) != runnel.Internal {
		t.Fatal(types, last)
	}
}

// An agent may start any number of items and end none. An item beyond the bound
// is shown when it ends.
func TestOpenItemsOfATurnAreBounded(t *testing.T) {
	id := func(i int) string { return fmt.Sprintf("T:1:%d", i) }
	bodies := []event.Body{event.ResponseStart{ProviderID: "p", ModelID: "m"}}
	for i := range event.MaxOpenItems + 1 {
		bodies = append(bodies, event.ItemStart{ItemID: id(i), ItemType: event.TypeMessage})
	}
	last := id(event.MaxOpenItems)
	said := event.Message{Content: "x", Origin: event.OriginAgent}
	bodies = append(bodies, event.ItemDelta{ItemID: last, DeltaContent: "x"}, event.ItemDone{ItemID: id(0), FinalItem: said},
		event.ItemDone{ItemID: last, FinalItem: said}, event.ResponseDone{Status: event.StatusCompleted})
	open, ended, notices := map[string]bool{}, 0, 0
	history := func(yield func(event.Event, error) bool) {
		for i, b := range bodies {
			if !yield(event.Event{At: time.Unix(int64(i), 0), Turn: "T", Body: b}, nil) {
				return
			}
		}
	}
	for ev, err := range runnel.Replay("s", "p", history) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			if open[b.ItemID] = true; len(open) > event.MaxOpenItems {
				t.Fatalf("%d items are open", len(open))
			}
		case event.ItemDone:
			delete(open, b.ItemID)
			ended++
		case event.ItemCancelled:
			delete(open, b.ItemID)
		case event.Notice:
			notices++
		}
	}
	if len(open) != 0 || ended != 2 || notices != 2 { // one about the start, one about the text
		t.Errorf("%d items are left open, %d have ended, %d notices", len(open), ended, notices)
	}
}
