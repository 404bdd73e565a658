//go:build linux

package hostile

import (
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// TestDeeplyNestedArgumentsLeaveTheSessionReadable has an agent call a tool
// with arguments that a decoder of JSON just accepts, but no longer inside an
// event.
func TestDeeplyNestedArgumentsLeaveTheSessionReadable(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for levels := 9992; levels <= 9997; levels++ { // a line with more is no JSON for the server
		c := w.Follow(w.create())
		end := c.End(c.Send(plan{Deltas: 1, Ask: true, Deep: levels}.prompt()))
		c.Leave()
		if _, ok := end.Body.(event.ResponseDone); !ok {
			t.Errorf("%d levels: the turn ended with %+v", levels, end.Body)
		}
		for _, ev := range c.Events {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				t.Errorf("%d levels: the approval %s was asked, with %d bytes of arguments", levels, b.Approval.ID, len(b.Approval.Arguments))
			}
		}
		w.Call("POST", fmt.Sprintf("/api/session/%s/kill", c.Session), object{}, nil)
	}
}
