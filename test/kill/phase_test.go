//go:build linux

package kill

import (
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
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
			c := w.follow(w.create())
			defer c.leave()
			for i, ph := range phases {
				c.answers.Store(ph.name != "approval") // there it is answered by the next server's client
				turn := c.send(turnPrompt(2 * i))
				c.until(ph.name, func(ev event.Event) bool { return ev.Turn == turn && ph.when(ev) })
				w.kill()
				if window == "-1s" {
					w.empty(2 * time.Second)
				}
				w.start()
				c.answers.Store(true)
				if ph.name == "approval" && window != "-1s" {
					c.decide(c.pending(turn))
				}
				end := c.end(turn)
				c.agrees(turn, w.log(c.session, end.Seq))
				c.closed(turn)
				if window != "-1s" {
					if _, ok := end.Body.(event.ResponseDone); !ok {
						t.Errorf("%s: ended with %+v", ph.name, end.Body)
					}
					c.whole(turn)
					continue
				}
				if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
					t.Errorf("%s: ended with %+v", ph.name, end.Body)
				}
				turn = c.send(turnPrompt(2*i + 1))
				if _, ok := c.end(turn).Body.(event.ResponseDone); !ok {
					t.Errorf("after %s: the conversation does not go on", ph.name)
				}
				c.whole(turn)
			}
			w.stop(syscall.SIGINT)
			w.empty(time.Second)
		})
	}
}

// pending returns the approval of a turn that nobody has answered.
func (c *client) pending(turn string) string {
	c.w.t.Helper()
	id := ""
	for _, ev := range c.w.log(c.session, c.last.Load()) {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			if ev.Turn == turn {
				id = b.Approval.ID
			}
		case event.ApprovalResolved:
			if id == b.ApprovalID {
				id = ""
			}
		}
	}
	if id == "" {
		c.w.t.Error("no question is open any more")
	}
	return id
}

// closed checks that nothing of a turn that is over is open.
func (c *client) closed(turn string) {
	c.w.t.Helper()
	open := make(map[string]bool)
	for _, ev := range c.events {
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
		c.w.t.Errorf("still open: %v", open)
	}
}

// TestQueueSurvives kills the server while one prompt runs and another waits:
// both have their turn, in order.
func TestQueueSurvives(t *testing.T) {
	w := newWorld(t, "60s")
	w.start()
	c := w.follow(w.create())
	defer c.leave()
	first := c.send(turnPrompt(1))
	c.until("text", func(ev event.Event) bool { return grows(ev, ":1") })
	var second struct {
		TurnID string `json:"turnId"`
	}
	if code, ok := w.call("POST", "/api/session/"+c.session+"/send", map[string]any{"content": turnPrompt(2), "queue": true}, &second); !ok || code != 202 {
		t.Fatalf("queued: %d", code)
	}
	w.kill()
	w.start()
	for _, turn := range []string{first, second.TurnID} {
		end := c.end(turn)
		if _, ok := end.Body.(event.ResponseDone); !ok {
			t.Errorf("ended with %+v", end.Body)
		}
		c.whole(turn)
		c.agrees(turn, w.log(c.session, end.Seq))
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}
