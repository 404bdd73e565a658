package claude

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// messaging is the variable by which the tests switch the messages between
// sessions on, as in a session in a user's own terminal.
const messaging = "CLAUDE_CODE_HARBOR_KITE=1"

// messagingKnown reports whether the agent can list and message other sessions.
func messagingKnown(r *rig) bool { return r.Agent.Version != "2.1.197" }

// inOtherProject returns a rig for a session of the same user in another project.
func (r *rig) inOtherProject() *rig {
	r.T.Helper()
	other := *r.Rig
	other.Conn, other.Opt.Dir = nil, filepath.Join(filepath.Dir(r.Home.Project), "other")
	other.Opt.Env = slices.Clone(r.Opt.Env)
	if err := os.MkdirAll(other.Opt.Dir, 0o700); err != nil {
		r.T.Fatal(err)
	}
	return &rig{&other}
}

// pid returns the id of the agent's process.
func (r *rig) pid() string {
	return itoa(r.Conn.(interface{ Process() supervisor.Agent }).Process().Pid())
}

// addresses returns the names by which other sessions may address the rig's
// session, as its agent has noted them.
func (r *rig) addresses() (names []string, socket string) {
	r.T.Helper()
	b, err := os.ReadFile(filepath.Join(r.Home.Config, "sessions", r.pid()+".json"))
	if err != nil {
		r.T.Fatal(err)
	}
	var noted struct{ Name, SessionID, MessagingSocketPath string }
	if err := json.Unmarshal(b, &noted); err != nil {
		r.T.Fatal(err)
	}
	socket = noted.MessagingSocketPath
	if socket == "" {
		socket = "/tmp/cc-socks/" + r.pid() + ".sock"
	}
	names = append(names, "uds:"+socket, noted.SessionID)
	if noted.Name != "" {
		names = append(names, noted.Name)
	}
	return names, socket
}

// listens reports whether a process listens on a socket. A killed agent leaves
// the file of its socket, and another agent may get its process id.
func listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// results returns the outputs of the calls in a turn.
func results(evs []event.Event) (out []string) {
	for _, it := range items(evs) {
		if f, ok := it.Final.(event.FunctionCallOutput); ok {
			out = append(out, fmt.Sprint(f.Output))
		}
	}
	return out
}

// message makes the model list the other sessions and send each of names a
// message, and returns the outputs. No call may ask.
func (r *rig) message(names ...string) []string {
	r.T.Helper()
	steps := []string{"ListAgents"}
	blocks := calls(use("ListAgents", args{}))
	for _, name := range names {
		steps = append(steps, name)
		blocks.Blocks = append(blocks.Blocks, use("SendMessage", args{"to": name, "summary": "Look", "message": "canary-of-peers"}))
	}
	r.Play(blocks, says("ok"))
	evs, asked := r.DenyAll()
	out := results(evs)
	if asked != 0 || len(out) != len(steps) {
		r.T.Fatalf("%d questions, outputs %q for %q\n%s", asked, out, steps, dump(evs))
	}
	return out
}

// messaged reports whether the model of another session received a message, after
// one more turn there. first is a text that only that session contains.
func (r *rig) messaged(first string) bool {
	r.T.Helper()
	r.Send("and further")
	r.FinishTurn("")
	for _, q := range r.Model.Requests() {
		if body := string(q.Body); strings.Contains(body, first) && strings.Contains(body, "canary-of-peers") {
			return true
		}
	}
	return false
}

// The model chooses to list and to message other sessions, and the agent asks
// about neither. The other session would begin a turn by itself.
func TestSessionsNeitherListNorMessageOthers(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		other := r.inOtherProject()
		other.Send("hello other")
		other.Finish("")
		names, socket := other.addresses()
		if listens(socket) {
			t.Errorf("the session listens at %s", socket)
		}
		for i, out := range r.message(names...) {
			if strings.Contains(out, "Peer sessions") || strings.Contains(out, `"success":true`) {
				t.Errorf("call %d: %s", i, out)
			}
		}
		if other.messaged("hello other") {
			t.Error("the other session received the message")
		}
	})
}

// A message to a subagent of the session itself still continues that subagent.
func TestMessagesReachSubagentsOfTheSession(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Play(costing(calls(agent("One", false, says("Ran."))), says("ok"))...)
		r.Finish("")
		found, err := filepath.Glob(filepath.Join(r.Home.Config, "projects", "*", r.agentSession(), "subagents", "agent-*.jsonl"))
		if err != nil || len(found) != 1 {
			t.Fatalf("subagents %q, %v", found, err)
		}
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "agent-"), ".jsonl")
		r.Play(costing(calls(use("SendMessage", args{"to": id, "summary": "Continue the work", "message": "More."})), says("ok"))...)
		evs, asked := r.DenyAll()
		if out := results(evs); asked != 0 || len(out) != 1 || !strings.Contains(out[0], `"success":true`) {
			t.Errorf("%d questions, outputs %q", asked, out)
		}
	})
}

// A sandbox shows neither the notes nor the sockets of sessions outside of it,
// even if the agent in it can send messages.
func TestSandboxedSessionsReachNoOthers(t *testing.T) {
	agentrig.NeedSandbox(t)
	eachAgent(t, func(t *testing.T, r *rig) {
		if !messagingKnown(r) {
			return
		}
		r.Opt.Env = append(r.Opt.Env, messaging)
		for name, box := range map[string]runnel.Sandbox{"outside": "", "in a sandbox": runnel.SandboxProject} {
			t.Run(name, func(t *testing.T) {
				other := r.inOtherProject()
				other.Enclose(box)
				other.Send("hello " + name)
				other.Finish("")
				mine := *r.Rig
				mine.T, mine.Conn = t, nil
				r := &rig{&mine}
				r.Enclose(runnel.SandboxProject)
				var names []string
				if box == "" {
					var socket string
					names, socket = other.addresses()
					if !listens(socket) {
						t.Fatalf("the variable does not switch messages on: no %s", socket)
					}
					r.Play(calls(bash("ls -d "+socket+" "+r.Home.Config+"/sessions/"+other.pid()+".json ; test -S "+socket+" || echo without socket", "Look")), says("ok"))
					if out := fmt.Sprint(results(r.Finish(allowOnce))); strings.Count(out, "No such file") != 2 || !strings.Contains(out, "without socket") {
						t.Errorf("the sandbox shows %s", out)
					}
				}
				for i, out := range r.message(names...) {
					if strings.Contains(out, "Peer sessions") || strings.Contains(out, `"success":true`) {
						t.Errorf("call %d: %s", i, out)
					}
				}
				if other.messaged("hello " + name) {
					t.Error("the other session received the message")
				}
			})
		}
	})
}
