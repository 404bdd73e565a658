//go:build linux

package kill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testload"
)

const (
	before = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
	after  = "and then there was nothing more to be said about the matter, so it ended here"
)

// turnPrompt returns the prompt of turn n. The turn takes a second or two and
// has every phase: thinking, text, arguments, an approval, a slow tool, and
// text again.
func (w *world) turnPrompt(n int) string { return w.prompt(n) }

// heldPrompt is like turnPrompt, but the last text of the turn waits at a gate.
// The turn cannot end before the test opens the gate, so a kill is never too
// late.
func (w *world) heldPrompt(n int) string {
	return w.prompt(n, fakemodel.Fault{Kind: fakemodel.Stall, After: 1, Gate: gateOf(n)})
}

// gateOf returns the name of the gate in turn n.
func gateOf(n int) string { return fmt.Sprintf("end of turn %d", n) }

func (w *world) prompt(n int, last ...fakemodel.Fault) string {
	tool := realagents.ToolsetOf(w.agent).Ask(fmt.Sprintf("echo begin %d; sleep 0.3; touch done-%d; echo a long line of arguments that takes a while to be written", n, n))
	return fakemodel.Scenario{Steps: []fakemodel.Step{
		{Chunk: 4, Pace: 150, Blocks: []fakemodel.Block{
			{Type: "thinking", Text: "Let me think about this for a while."}, {Type: "text", Text: before}, tool,
		}},
		{Chunk: 4, Pace: 150, Text: after, Faults: last},
	}}.Prompt(fmt.Sprintf("turn %d", n))
}

// turnTime is about how long the turn of turnPrompt takes.
const turnTime = 1400 * time.Millisecond

// reasons are the error codes with which turns end because of a kill or a full
// disk.
var reasons = map[string]bool{
	"PROCESS_CRASH":         true,
	"SESSION_CREATE_FAILED": true, // the agent was killed while it was started for the turn
	"STORE_UNAVAILABLE":     true, // the disk was full
}

// tally counts the turns that ran to their own end, and those that were closed
// with an error.
type tally struct{ continued, closed int }

// moments runs repeat rounds. In each round, each of several clients runs a
// turn in its own session, and moments calls act at a random time during the
// turns. It checks all events of the turns and returns how they ended.
func (w *world) moments(seed uint64, repeat, sessions int, act func()) tally {
	t := w.t
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	clients := make([]*testapi.Client, sessions)
	for i := range clients {
		clients[i] = w.Follow(w.create())
		defer clients[i].Leave()
	}
	var sum tally
	for r := range repeat {
		turns := make([]string, sessions)
		ends := make([]*event.Event, sessions) // of turns that ended before they said anything
		for i, c := range clients {
			turns[i] = c.Send(w.turnPrompt(r*sessions + i))
			pass(time.Duration(rnd.Int64N(int64(turnTime / 8))))
		}
		for i, c := range clients {
			if !w.begun {
				continue
			}
			ev := c.Until("beginning", func(ev event.Event) bool {
				_, says := ev.Body.(event.ItemDelta)
				return ev.Turn == turns[i] && (says || event.Ends(ev.Body))
			})
			if event.Ends(ev.Body) { // the server had not noticed yet that the agent had ended when it got the prompt
				t.Logf("round %d, session %d: ended before it said anything", r, i)
				ends[i] = &ev
			}
		}
		pass(time.Duration(rnd.Int64N(int64(turnTime))))
		act()
		for i, c := range clients {
			end := ends[i]
			if end == nil {
				ev := c.End(turns[i])
				end = &ev
			}
			switch b := end.Body.(type) {
			case event.ResponseDone:
				sum.continued++
				w.whole(c, turns[i])
			case event.ResponseError:
				sum.closed++
				if !reasons[b.Error.Code] || b.Error.Message == "" {
					t.Errorf("closed as %+v", b.Error)
				}
				t.Logf("round %d, session %d: closed: %s", r, i, b.Error.Message)
			}
			c.Agrees(turns[i], w.Log(c.Session, end.Seq))
		}
		if t.Failed() {
			t.Fatalf("in round %d", r)
		}
	}
	return sum
}

// whole checks that a turn that completed has both texts and the tool's output.
func (w *world) whole(c *testapi.Client, turn string) {
	t := w.t
	t.Helper()
	var texts []string
	tools := 0
	for _, ev := range c.Events {
		b, ok := ev.Body.(event.ItemDone)
		if !ok || ev.Turn != turn {
			continue
		}
		switch f := b.FinalItem.(type) {
		case event.Message:
			if f.Origin == event.OriginAgent {
				texts = append(texts, f.Content)
			}
		case event.FunctionCallOutput:
			tools++
			if f.IsError || !strings.Contains(f.Output, "a long line of arguments") {
				t.Errorf("the tool gave %+v", f)
			}
		}
	}
	if len(texts) != 2 || texts[0] != before || texts[1] != after || tools != 1 {
		t.Errorf("the turn has %q and %d tools", texts, tools)
	}
}

// pass waits for d. The tests kill at random times on purpose: a kill after an
// event would always hit the same moment of real agents and servers.
func pass(d time.Duration) { <-time.After(d) }

func seed(t *testing.T) uint64 {
	if s := os.Getenv("RUNNEL_SEED"); s != "" {
		var n uint64
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	return uint64(time.Now().UnixNano())
}

// TestKilledServerLosesNothing kills the server at random times during real
// turns. The turns must continue to their own end, and every client must
// receive every event once.
func TestKilledServerLosesNothing(t *testing.T) {
	w := newWorld(t, "60s")
	w.start()
	repeat, sessions := rounds(50, 3), rounds(4, 3)
	sum := w.moments(seed(t), repeat, sessions, func() {
		w.kill()
		w.start()
	})
	t.Logf("%+v", sum)
	if all := repeat * sessions; sum.continued < all*95/100 {
		t.Errorf("of %d turns %d went on", all, sum.continued)
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}

// TestUpgradeUnderRunningTurns stops the server with SIGTERM, as a service
// manager does, and starts an update of it. No turn may be lost.
func TestUpgradeUnderRunningTurns(t *testing.T) {
	w := newFastWorld(t, "60s")
	w.start()
	other, err := update()
	if err != nil {
		t.Fatal(err)
	}
	repeat, sessions := rounds(10, 2), rounds(3, 2)
	sum := w.moments(seed(t), repeat, sessions, func() {
		w.stop(syscall.SIGTERM)
		w.binary, other = other, w.binary
		w.start()
	})
	t.Logf("%+v", sum)
	if sum.closed > 0 {
		t.Errorf("%d turns were lost", sum.closed)
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}

// TestFrozenServerLosesNothing suspends the server's process for a while during
// turns. No turn may be lost.
func TestFrozenServerLosesNothing(t *testing.T) {
	w := newFastWorld(t, "60s")
	w.start()
	pause := time.Duration(rounds(30, 2)) * time.Second
	sum := w.moments(seed(t), rounds(3, 1), rounds(3, 2), func() {
		if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pass(pause)
		if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
	if sum.closed > 0 {
		t.Errorf("%d turns were lost", sum.closed)
	}
}

// TestKilledSupervisorClosesItsTurn kills the supervisors. Their turns must be
// closed at once, with a reason, and no process of their agents may remain.
func TestKilledSupervisorClosesItsTurn(t *testing.T) {
	w := newFastWorld(t, "60s")
	w.begun = true
	w.start()
	sum := w.moments(seed(t), rounds(10, 2), rounds(3, 2), func() {
		for _, pid := range w.supervisors() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		w.empty(2 * time.Second)
	})
	t.Logf("%+v", sum)
}

// TestKilledServerAndSupervisorsLeaveNothing kills the server and the
// supervisors at the same time. After the next start of the server, neither the
// agents nor what they had started may run.
func TestKilledServerAndSupervisorsLeaveNothing(t *testing.T) {
	w := newFastWorld(t, "60s")
	w.begun = true
	w.start()
	sum := w.moments(seed(t), rounds(10, 2), rounds(3, 2), func() {
		both := append(w.supervisors(), w.cmd.Process.Pid)
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // while suspended, none can react to the end of another
			for _, pid := range both {
				_ = syscall.Kill(pid, sig) // some may have ended already
			}
		}
		_ = w.cmd.Wait()
		w.start()
		w.empty(2 * time.Second)
	})
	t.Logf("%+v", sum)
}

// TestWindowEnds leaves a supervisor without a server. Within a second after
// its reattach window, no process may remain.
func TestWindowEnds(t *testing.T) {
	window := testload.Room(2 * time.Second) // long enough for the test to see the supervisor
	w := newFastWorld(t, window.String())
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	turn := c.Send(w.heldPrompt(1))
	c.Until("text", func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok })
	w.kill()
	if len(w.supervisors()) != 1 {
		t.Error("the supervisor did not wait")
	}
	pass(window)
	w.empty(time.Second)
	w.start()
	end := c.End(turn)
	if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	c.Agrees(turn, w.Log(c.Session, end.Seq))
	turn = c.Send(w.turnPrompt(2)) // the agent resumes the conversation from its own files
	if _, ok := c.End(turn).Body.(event.ResponseDone); !ok {
		t.Error("the next turn did not end well")
	}
	w.whole(c, turn)
}
