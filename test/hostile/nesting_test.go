//go:build linux

package hostile

import (
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// TestDeeplyNestedArgumentsLeaveTheSessionReadable has an agent call a tool
// with deeply nested arguments: some that a JSON decoder accepts alone but not
// inside an event, and some that it does not accept at all.
func TestDeeplyNestedArgumentsLeaveTheSessionReadable(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for _, levels := range []int{9992, 9993, 9994, 9995, 9996, 9997, 10_001, 200_000, 4_000_000} {
		c := w.Follow(w.create())
		end := c.End(c.Send(plan{Deltas: 1, Ask: true, Deep: levels}.prompt()))
		c.Leave()
		if _, ok := end.Body.(event.ResponseDone); !ok {
			t.Errorf("%d levels: the turn ended with %+v", levels, end.Body)
		}
		noticed := false
		for _, ev := range c.Events {
			if b, ok := ev.Body.(event.Notice); ok && b.Code == "VALUE_TOO_LONG" {
				noticed = true
			}
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				t.Errorf("%d levels: the approval %s was asked, with %d bytes of arguments", levels, b.Approval.ID, len(b.Approval.Arguments))
			}
		}
		if !noticed {
			t.Errorf("%d levels: no notice VALUE_TOO_LONG", levels)
		}
		w.Call("POST", fmt.Sprintf("/api/session/%s/kill", c.Session), object{}, nil)
	}
}
