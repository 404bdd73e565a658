//go:build linux

package kill

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// eachAgent runs a test with every agent except Claude Code, which the other
// tests use. Each agent gets its own world with this reattach window. The slow
// agents need RUNNEL_LONG.
func eachAgent(t *testing.T, window string, test func(t *testing.T, w *world, found providertest.Report)) {
	t.Helper()
	t.Parallel()
	providertest.Each(t, filepath.Join("..", ".."), realagents.Others(), func(t *testing.T, found providertest.Report) {
		if !long() && slices.Contains(slow, found.Agent) {
			t.Skip("takes long to start, and others take the same way: RUNNEL_LONG=1")
		}
		t.Parallel() // one agent waits up to a minute before it resumes
		w := newWorldOf(t, found.Agent, window, filepath.Join(t.TempDir(), "data"))
		w.start()
		test(t, w, found)
		w.stop(syscall.SIGINT)
		w.empty(time.Second)
	})
}

// slow are the agents that take processor time to start. The claims of these
// tests are about the server and the supervisor, which are the same for every
// agent.
var slow = []string{"claude-agent-acp", "copilot", "gemini", "opencode", "qwen"}

func works(found providertest.Report, test string) bool {
	i := slices.IndexFunc(found.Results, func(f providertest.Finding) bool { return f.Test == test })
	return i < 0 || found.Results[i].Works
}

// TestTurnsOfEveryAgentContinueAfterAKill kills the server in each phase of a
// turn of each agent. The turn must continue to its end, and the client must
// receive every event once.
func TestTurnsOfEveryAgentContinueAfterAKill(t *testing.T) {
	eachAgent(t, "60s", func(t *testing.T, w *world, found providertest.Report) {
		c := w.Follow(w.create())
		defer c.Leave()
		for i, ph := range phases {
			if !long() && !slices.Contains([]string{"text", "approval", "tool"}, ph.name) {
				continue
			}
			c.Answers.Store(ph.name != "approval")
			turn := c.Send(w.turnPrompt(i))
			at, ok := reach(c, turn, ph.name)
			if !ok {
				if ph.name != "thinking" && ph.name != "arguments" { // not all agents report these
					t.Errorf("a turn without the phase %s", ph.name)
				}
				continue
			}
			w.kill()
			w.start()
			c.Answers.Store(true)
			if b, ok := at.Body.(event.ApprovalRequested); ok {
				c.Decide(b.Approval)
			}
			end := c.End(turn)
			c.Agrees(turn, w.Log(c.Session, end.Seq))
			w.closed(c, turn)
			if b, ok := end.Body.(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
				t.Errorf("%s: ended with %+v", ph.name, end.Body)
			}
			w.said(c, turn)
		}
	})
}

// said checks that a turn has both texts of the agent, once and in order.
func (w *world) said(c *testapi.Client, turn string) {
	w.t.Helper()
	var texts []string
	for _, ev := range c.Events {
		if b, ok := ev.Body.(event.ItemDone); ok && ev.Turn == turn {
			m, ok := b.FinalItem.(event.Message)
			if ok && m.Origin == event.OriginAgent && (m.Content == before || m.Content == after) { // ignores an agent's note that it was interrupted
				texts = append(texts, m.Content)
			}
		}
	}
	if !slices.Equal(texts, []string{before, after}) {
		w.t.Errorf("the turn has %q", texts)
	}
}

// runs waits for a process of the world whose command line contains line.
func (w *world) runs(line string) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testapi.Timeout); ; <-tick.C {
		if slices.ContainsFunc(w.processes(), func(p process) bool { return strings.Contains(p.line, line) }) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("nothing runs %q", line)
		}
	}
}

// TestTurnsOfEveryAgentCloseWithoutTakeover kills the server when supervisors
// do not wait for the next server. No process of the agent may remain. Its turn
// must be closed once, and the next turn must resume the conversation if the
// agent can.
func TestTurnsOfEveryAgentCloseWithoutTakeover(t *testing.T) {
	eachAgent(t, "-1s", func(t *testing.T, w *world, found providertest.Report) {
		c := w.Follow(w.create())
		defer c.Leave()
		for i, phase := range []string{"tool", "text"}[:rounds(2, 1)] {
			turn := c.Send(w.heldPrompt(2 * i))
			if _, ok := reach(c, turn, phase); !ok {
				t.Fatalf("a turn without the phase %s", phase)
			}
			w.kill()
			w.empty(3 * time.Second)
			w.start()
			end := c.End(turn)
			c.Agrees(turn, w.Log(c.Session, end.Seq))
			w.closed(c, turn)
			if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
				t.Errorf("%s: ended with %+v", phase, end.Body)
			}
			if !works(found, "ResumeAfterKill") {
				return
			}
			turn = c.Send(w.turnPrompt(2*i + 1))
			if b, ok := c.End(turn).Body.(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
				t.Errorf("after %s: the conversation does not go on", phase)
			}
			w.said(c, turn)
		}
	})
}

// TestStopEndsTheProcessTreeOfEveryAgent has a tool of each agent start
// processes that detach themselves and ignore signals. It then kills the
// session or the server. None of the processes may remain.
func TestStopEndsTheProcessTreeOfEveryAgent(t *testing.T) {
	eachAgent(t, "-1s", func(t *testing.T, w *world, _ providertest.Report) {
		for name, end := range map[string]func(session string){
			"killed session": func(session string) { w.Call("POST", "/api/session/"+session+"/kill", map[string]any{}, nil) },
			"killed server": func(string) {
				w.kill()
				w.empty(5 * time.Second)
				w.start()
			},
		} {
			c := w.Follow(w.create())
			turn := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{realagents.ToolsetOf(w.agent).Ask(zoo)}}, {Text: after}}}.Prompt("go"))
			c.Until("allowed tool", func(ev event.Event) bool {
				_, ok := ev.Body.(event.ApprovalResolved)
				return ok && ev.Turn == turn
			})
			w.runs("sleep 4321")
			end(c.Session)
			w.empty(5 * time.Second)
			c.Leave()
			if t.Failed() {
				t.Fatal(name)
			}
			if !long() {
				break // only one of the two, at random
			}
		}
	})
}

// zoo is a shell command that starts processes which outlive their shell, and
// then waits.
const zoo = "setsid sleep 4321 & nohup sleep 4321 >/dev/null 2>&1 & (trap '' HUP INT TERM; sleep 4321) & disown -a; (setsid nohup sleep 4321 >/dev/null 2>&1 &); sleep 4321"
