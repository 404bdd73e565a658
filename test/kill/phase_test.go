//go:build linux

package kill

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// phases are the points of a turn at which the server is killed. They differ in
// what is unfinished. of has the types of items by their ids.
var phases = []struct {
	name string
	when func(ev event.Event, of map[string]event.ItemType) bool
}{
	{"thinking", grows(event.TypeReasoning)},
	{"text", grows(event.TypeMessage)},
	{"arguments", grows(event.TypeFunctionCall)},
	{"approval", func(ev event.Event, _ map[string]event.ItemType) bool {
		_, ok := ev.Body.(event.ApprovalRequested)
		return ok
	}},
	{"tool", func(ev event.Event, _ map[string]event.ItemType) bool {
		_, ok := ev.Body.(event.ApprovalResolved)
		return ok
	}},
	{"after", func(ev event.Event, _ map[string]event.ItemType) bool {
		b, ok := ev.Body.(event.ItemDone)
		_, is := b.FinalItem.(event.FunctionCallOutput)
		return ok && is
	}},
}

// grows returns a condition that is true for deltas of items of this type.
func grows(typ event.ItemType) func(event.Event, map[string]event.ItemType) bool {
	return func(ev event.Event, of map[string]event.ItemType) bool {
		b, ok := ev.Body.(event.ItemDelta)
		return ok && of[b.ItemID] == typ
	}
}

// reach waits for a phase of a turn and returns the event that began it. It
// returns false if the turn ended without the phase: not all agents report
// their thinking, or arguments while they are written.
func reach(c *testapi.Client, turn, phase string) (at event.Event, ok bool) {
	of := make(map[string]event.ItemType)
	for _, ph := range phases {
		if ph.name != phase {
			continue
		}
		at = c.Until(phase, func(ev event.Event) bool {
			if b, is := ev.Body.(event.ItemStart); is {
				of[b.ItemID] = b.ItemType
			}
			ok = ev.Turn == turn && ph.when(ev, of)
			return ok || ev.Turn == turn && event.Ends(ev.Body)
		})
	}
	return at, ok
}

// TestRestartInEachPhaseOfATurn kills the server in each phase of a turn. With
// a reattach window, the agent waits for the next server and the turn must
// continue. Without a window, the turn must be closed with everything that was
// open in it, and the next turn must resume the conversation.
func TestRestartInEachPhaseOfATurn(t *testing.T) {
	for _, window := range []string{"60s", "-1s"} {
		t.Run("window="+window, func(t *testing.T) { restartInPhases(t, newWorld(t, window), "") })
	}
}

// restartInPhases kills the server in each phase of a turn. without contains
// the names of the phases that turns of the agent do not have.
func restartInPhases(t *testing.T, w *world, without string) {
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	for i, ph := range phases {
		if w.window == "-1s" && !long() && (ph.name == "thinking" || ph.name == "after") {
			continue // each phase starts another agent, and other phases leave the same unfinished
		}
		c.Answers.Store(ph.name != "approval") // in that phase, the test decides after the restart
		if strings.Contains(without, ph.name) {
			w.model.Gate(gateOf(2 * i)).Open() // the phase never comes, so the turn must be able to end
		}
		turn := c.Send(w.heldPrompt(2 * i))
		at, ok := reach(c, turn, ph.name)
		if ok == strings.Contains(without, ph.name) {
			t.Fatalf("phase %s: reached %v, and the agent is without %q", ph.name, ok, without)
		}
		if !ok {
			continue
		}
		w.kill()
		if w.window == "-1s" {
			w.empty(2 * time.Second)
		}
		w.start()
		w.model.Gate(gateOf(2 * i)).Open()
		c.Answers.Store(true)
		if b, ok := at.Body.(event.ApprovalRequested); ok && w.window != "-1s" {
			c.Decide(b.Approval)
		}
		w.afterRestart(c, ph.name, turn, 2*i+1)
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}

// afterRestart checks how a turn ended during which the server was killed.
// Without a reattach window it also runs turn number next.
func (w *world) afterRestart(c *testapi.Client, phase, turn string, next int) {
	t := w.t
	t.Helper()
	end := c.End(turn)
	c.Agrees(turn, w.Log(c.Session, end.Seq))
	w.closed(c, turn)
	if w.window != "-1s" {
		if _, ok := end.Body.(event.ResponseDone); !ok {
			t.Errorf("%s: ended with %+v", phase, end.Body)
		}
		w.whole(c, turn)
		return
	}
	if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
		t.Errorf("%s: ended with %+v", phase, end.Body)
	}
	turn = c.Send(w.turnPrompt(next))
	if _, ok := c.End(turn).Body.(event.ResponseDone); !ok {
		t.Errorf("after %s: the conversation does not go on", phase)
	}
	w.whole(c, turn)
}

// closed fails the test if an ended turn has an item or approval without an end.
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

// TestQueueSurvives kills the server while one prompt runs and another waits in
// the queue. Both must get their turn, in order.
func TestQueueSurvives(t *testing.T) {
	w := newWorld(t, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	first := c.Send(w.turnPrompt(1))
	reach(c, first, "text")
	var second struct {
		TurnID string `json:"turnId"`
	}
	if code, ok := w.Call("POST", "/api/session/"+c.Session+"/send", map[string]any{"content": w.turnPrompt(2), "queue": true}, &second); !ok || code != 202 {
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
