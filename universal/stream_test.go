package universal

import (
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// A run may have any number of calls, so a Stream keeps only those that can
// still have an output.
func TestStreamForgetsCallsThatEnded(t *testing.T) {
	s := new(Stream)
	push := func(turn string, bodies ...event.Body) {
		for _, b := range bodies {
			s.Push(event.Event{Session: "s", Turn: turn, Body: b})
		}
	}
	call := func(turn, id string) {
		push(turn, event.ItemStart{ItemID: turn + ":" + id, ItemType: event.TypeFunctionCall, CallID: id, Name: "Bash"})
	}
	keeps := func(what string, want ...string) {
		t.Helper()
		for _, id := range want {
			if _, ok := s.calls[id]; !ok {
				t.Errorf("%s: %s is forgotten", what, id)
			}
		}
		if len(s.calls) != len(want) {
			t.Errorf("%s: %d calls are kept, want %v", what, len(s.calls), want)
		}
	}
	call("other", "running")
	for i := range 100 {
		id := fmt.Sprint(i)
		call("t", id)
		push("t",
			event.ItemDone{ItemID: "t:" + id, FinalItem: event.FunctionCall{CallID: id, Name: "Bash"}},
			event.ItemDone{ItemID: "t:" + id + ":output", FinalItem: event.FunctionCallOutput{CallID: id}})
	}
	keeps("after the outputs", "running")
	call("t", "failed")
	push("t", event.ItemError{ItemID: "t:failed"})
	keeps("after a failure", "running")
	call("t", "cancelled")
	push("t",
		event.ItemStart{ItemID: "t:cancelled:output", ItemType: event.TypeFunctionCallOutput, CallID: "cancelled"},
		event.ItemCancelled{ItemID: "t:cancelled:output"})
	keeps("after an output was cancelled", "running")
	call("t", "without output")
	keeps("before the turn ends", "running", "without output")
	push("t", event.ResponseDone{Status: event.StatusCompleted})
	keeps("after the turn", "running")
	push("other", event.ResponseError{})
	keeps("after both turns")
}
