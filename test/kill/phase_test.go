//go:build linux

package kill

import (
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// phases are the moments of a turn that differ in what is unfinished.
var phases = []struct {
	name string
	when func(event.Event) bool
}{
	{"thinking", func(ev event.Event) bool { return grows(ev, ":0") }},
	{"text", func(ev event.Event) bool { return grows(ev, ":1") }},
	{"arguments", func(ev event.Event) bool { return grows(ev, ":2") }},
	{"approval", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok }},
	{"tool", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalResolved); return ok }},
	{"after", func(ev event.Event) bool {
		b, ok := ev.Body.(event.ItemDone)
		_, is := b.FinalItem.(event.FunctionCallOutput)
		return ok && is
	}},
}

// grows reports whether ev is a delta of the turn's first message, in the block
// with this index.
func grows(ev event.Event, block string) bool {
	b, ok := ev.Body.(event.ItemDelta)
	return ok && b.ItemID == ev.Turn+":1"+block
}

// TestF11_RestartInEachPhase kills the server in each phase of a turn: once
// where its agent waits for the next one, and the turn goes on; once where it
// does not, and the turn is closed with all that was open in it, and the next
// one resumes the conversation.
func TestF11_RestartInEachPhase(t *testing.T) {
	for _, window := range []string{"60s", "-1s"} {
		t.Run("window="+window, func(t *testing.T) {
			w := newWorld(t, window)
			w.start()
			c := w.Follow(w.create())
			defer c.Leave()
			for i, ph := range phases {
				c.Answers.Store(ph.name != "approval") // there it is answered by the next server's client
				turn := c.Send(turnPrompt(2 * i))
				at := c.Until(ph.name, func(ev event.Event) bool { return ev.Turn == turn && ph.when(ev) })
				w.kill()
				if window == "-1s" {
					w.empty(2 * time.Second)
				}
				w.start()
				c.Answers.Store(true)
				if b, ok := at.Body.(event.ApprovalRequested); ok && window != "-1s" {
					c.Decide(b.Approval.ID)
				}
				end := c.End(turn)
				c.Agrees(turn, w.Log(c.Session, end.Seq))
				w.closed(c, turn)
				if window != "-1s" {
					if _, ok := end.Body.(event.ResponseDone); !ok {
						t.Errorf("%s: ended with %+v", ph.name, end.Body)
					}
					w.whole(c, turn)
					continue
				}
				if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
					t.Errorf("%s: ended with %+v", ph.name, end.Body)
				}
				turn = c.Send(turnPrompt(2*i + 1))
				if _, ok := c.End(turn).Body.(event.ResponseDone); !ok {
					t.Errorf("after %s: the conversation does not go on", ph.name)
				}
				w.whole(c, turn)
			}
			w.stop(syscall.SIGINT)
			w.empty(time.Second)
		})
	}
}

// closed checks that nothing of a turn that is over is open.
func (w *world) closed(c *testapi.Client, turn string) {
	w.t.Helper()
	open := make(map[string]bool)
	for _, ev := range c.Events {
		if ev.Turn != turn {
			continue
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			open[b.ItemID] = true
		case event.ItemDone:
			delete(open, b.ItemID)
		case event.ItemError:
			delete(open, b.ItemID)
		case event.ItemCancelled:
			delete(open, b.ItemID)
		case event.ApprovalRequested:
			open[b.Approval.ID] = true
		case event.ApprovalResolved:
			delete(open, b.ApprovalID)
		}
	}
	if len(open) > 0 {
		w.t.Errorf("still open: %v", open)
	}
}

// TestQueueSurvives kills the server while one prompt runs and another waits:
// both have their turn, in order.
func TestQueueSurvives(t *testing.T) {
	w := newWorld(t, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	first := c.Send(turnPrompt(1))
	c.Until("text", func(ev event.Event) bool { return grows(ev, ":1") })
	var second struct {
		TurnID string `json:"turnId"`
	}
	if code, ok := w.Call("POST", "/api/session/"+c.Session+"/send", map[string]any{"content": turnPrompt(2), "queue": true}, &second); !ok || code != 202 {
		t.Fatalf("queued: %d", code)
	}
	w.kill()
	w.start()
	for _, turn := range []string{first, second.TurnID} {
		end := c.End(turn)
		if _, ok := end.Body.(event.ResponseDone); !ok {
			t.Errorf("ended with %+v", end.Body)
		}
		w.whole(c, turn)
		c.Agrees(turn, w.Log(c.Session, end.Seq))
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}
