// Package drawlog draws random logs that the engine could have written, for
// property tests of the code that reads logs.
package drawlog

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Epoch is the time before the first event of every log.
var Epoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// Draw returns a log that the engine could have written, made from up to n
// events of an agent. The agent mixes up items and calls, and its turns may
// overlap. The events have the session "s".
func Draw(t *rapid.T, n int) []event.Event {
	turns := []string{"t1", "t2", "t3"}
	var drawn []event.Event
	at := Epoch
	for range rapid.IntRange(1, n).Draw(t, "events") {
		at = at.Add(time.Second)
		turn := rapid.SampledFrom(turns).Draw(t, "turn")
		item := fmt.Sprintf("%s:%d:0", turn, rapid.IntRange(0, 5).Draw(t, "item"))
		drawn = append(drawn, event.Event{At: at, Turn: turn, Body: drawBody(t, item)})
	}
	source := func(yield func(event.Event, error) bool) {
		for _, turn := range turns {
			if !yield(event.Event{At: Epoch, Turn: turn, Body: event.ResponseStart{ModelID: "m"}}, nil) {
				return
			}
		}
		for _, ev := range drawn {
			if !yield(ev, nil) {
				return
			}
		}
	}
	var evs []event.Event
	for ev, err := range runnel.Replay("s", "p", source) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

func drawBody(t *rapid.T, item string) event.Body {
	call := rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "call")
	word := rapid.SampledFrom([]string{"a", "two words", "", " é", strings.Repeat("x", 40)}).Draw(t, "text")
	started := func(typ event.ItemType) event.Body {
		b := event.ItemStart{ItemID: item, ItemType: typ, InitialContent: word}
		if typ == event.TypeFunctionCall || typ == event.TypeFunctionCallOutput {
			b.CallID = call
		}
		if typ == event.TypeFunctionCall {
			b.Name = "Bash"
		}
		return b
	}
	return rapid.Custom(func(t *rapid.T) event.Body {
		switch rapid.IntRange(0, 17).Draw(t, "kind") {
		case 0:
			return started(event.TypeMessage)
		case 1:
			return started(event.TypeReasoning)
		case 2, 3:
			return started(event.TypeFunctionCall)
		case 4, 5:
			return started(event.TypeFunctionCallOutput)
		case 6:
			return event.ItemDone{ItemID: item, FinalItem: event.Message{Content: word, Origin: event.OriginAgent}}
		case 7, 8:
			return event.ItemDone{ItemID: item, FinalItem: event.FunctionCall{Name: "Bash", CallID: call, Arguments: []byte(`{}`)}}
		case 9, 10:
			return event.ItemDone{ItemID: item, FinalItem: event.FunctionCallOutput{CallID: call, Output: word}}
		case 11:
			return event.ItemError{ItemID: item, Error: event.Fault{Code: "E", Message: "m"}}
		case 12:
			return event.ItemCancelled{ItemID: item, Reason: rapid.SampledFrom([]event.CancelReason{"", event.ReasonUserCancel, event.ReasonTimeout}).Draw(t, "reason")}
		case 13:
			return event.ApprovalRequested{Approval: event.Approval{ID: call, Kind: event.ApprovalTool, Title: "t", Choices: []event.Choice{{ID: "yes", Kind: event.ChoiceAllowOnce, Label: "Yes"}}}}
		case 14:
			return event.ApprovalResolved{ApprovalID: call, Choice: "yes", By: event.ByUser}
		case 15:
			return event.ResponseDone{Status: rapid.SampledFrom([]event.TurnStatus{event.StatusCompleted, event.StatusCancelled}).Draw(t, "status")}
		case 16:
			return event.Notice{Level: event.LevelInfo, Code: "C", Message: "m"}
		}
		return event.ItemDelta{ItemID: item, DeltaContent: word}
	}).Draw(t, "body")
}
