package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// A peer is a session of the same user in another project, by what its agent has
// noted of it.
type peer struct {
	*rig
	Cwd, Name, MessagingSocketPath string
	Pid                            int
}

// besideOf starts a session with the options of r in another project, and runs a
// turn in it.
func besideOf(r *rig) peer {
	r.T.Helper()
	other := *r.Rig
	other.Conn, other.Opt.Dir = nil, filepath.Join(filepath.Dir(r.Home.Project), "other")
	if err := os.MkdirAll(other.Opt.Dir, 0o700); err != nil {
		r.T.Fatal(err)
	}
	p := peer{rig: &rig{&other}}
	p.Send("hello other")
	p.Finish("")
	noted, err := filepath.Glob(filepath.Join(r.Home.Config, "sessions", "*.json"))
	if err != nil {
		r.T.Fatal(err)
	}
	for _, file := range noted {
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			r.T.Fatal(err)
		}
		if p.Cwd == other.Opt.Dir {
			return p
		}
	}
	r.T.Fatalf("no session among %q", noted)
	return p
}

// message makes the model list the other sessions and send p a message. It
// returns the outputs. No call may ask.
func (p peer) message(from *rig, socket string) (out []string) {
	p.T.Helper()
	send := func(to string) fakemodel.Block {
		input := json.RawMessage(fmt.Sprintf(`{"to":%q,"summary":"Look","message":"canary-of-peers"}`, to))
		return fakemodel.Block{Type: "tool_use", Name: "SendMessage", Input: input}
	}
	from.Play(calls(fakemodel.Block{Type: "tool_use", Name: "ListAgents", Input: json.RawMessage(`{}`)}, send("uds:"+socket), send(p.Name)), said)
	evs, asked := from.DenyAll()
	for _, it := range agentrig.Items(evs) {
		if f, ok := it.Final.(event.FunctionCallOutput); ok {
			out = append(out, fmt.Sprint(f.Output))
		}
	}
	if asked != 0 || len(out) != 3 {
		p.T.Fatalf("%d questions, outputs %q\n%s", asked, out, dump(evs))
	}
	return out
}

// messaged reports whether the model of p received the message, after one more
// turn there.
func (p peer) messaged() bool {
	p.T.Helper()
	p.Send("and further")
	p.FinishTurn("")
	return slices.ContainsFunc(p.Model.Requests(), func(q fakemodel.Request) bool {
		return strings.Contains(string(q.Body), "hello other") && strings.Contains(string(q.Body), "canary-of-peers")
	})
}

// The model chooses to list and to message other sessions, and Claude Code asks
// about neither. The other session would begin a turn by itself.
func TestSessionsOfClaudeNeitherListNorMessageOthers(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		other := besideOf(r)
		if other.MessagingSocketPath != "" {
			t.Errorf("the session listens at %s", other.MessagingSocketPath)
		}
		for i, out := range other.message(r, fmt.Sprintf("/tmp/cc-socks/%d.sock", other.Pid)) {
			if strings.Contains(out, "Peer sessions") || strings.Contains(out, `"success":true`) {
				t.Errorf("call %d: %s", i, out)
			}
		}
		if other.messaged() {
			t.Error("the other session received the message")
		}
	})
}

// A session in a user's own terminal can send messages. Those of Runnel refuse
// them, also if the variable that switches them off is without effect.
func TestSessionsOfClaudeRefuseMessagesOfOthers(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		env := append(slices.Clone(r.Opt.Env), "CLAUDE_CODE_HARBOR_KITE=1")
		r.Opt.Env = env
		r.Provider = New(known(t, r.Agent.Name)).(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), env)
		other := besideOf(r)
		if other.MessagingSocketPath == "" {
			t.Fatal("the variable does not switch messages on")
		}
		if out := other.message(r, other.MessagingSocketPath); !strings.Contains(out[0], "Peer sessions") || !strings.Contains(out[1], `"success":true`) {
			t.Errorf("the message was not sent: %q", out)
		}
		if other.messaged() {
			t.Error("the other session received the message")
		}
	})
}
