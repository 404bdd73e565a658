//go:build unix

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A named is an agent, with the name that profiles use for its shell tool.
type named struct {
	agent string
	shell string // the agent's name for the tool that runs commands
	rare  bool   // only with RUNNEL_LONG=1, because other agents take the same steps
}

// eachNamed runs f as a parallel subtest for each agent in list.
func eachNamed(t *testing.T, list []named, f func(t *testing.T, n named, agent realagents.Binary)) {
	for _, n := range list {
		t.Run(n.agent, func(t *testing.T) {
			if n.rare {
				needsLong(t, "other agents take the same steps")
			}
			binaries := []realagents.Binary{realagents.Find(t, n.agent)}
			if n.agent == "claude-code" {
				binaries = realagents.UsualClaude(t)
			}
			for _, agent := range binaries {
				t.Run(agent.Version, func(t *testing.T) {
					t.Parallel()
					f(t, n, agent)
				})
			}
		})
	}
}

// governed starts a server with governed delegation and with these profiles, by
// name.
func governed(t *testing.T, agent realagents.Binary, profiles map[string]string) *server {
	t.Helper()
	s := prepare(t, agent)
	dir := t.TempDir()
	for name, text := range profiles {
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(slices.Clone(s.env), "RUNNEL_PROFILES_DIR="+dir, "RUNNEL_GOVERNED_DELEGATION=true")
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s.start(binary)
	t.Cleanup(s.stop)
	return s
}

// begin creates a session with a request to route and returns a client of it.
func (s *server) begin(route string, fields map[string]any) *sse {
	s.t.Helper()
	var made struct {
		SessionID string
		Session   struct{ SessionID string }
		Error     any
	}
	if code := s.call("POST", route, fields, &made); code != http.StatusCreated && code != http.StatusOK {
		s.t.Fatalf("create: %d %v", code, made.Error)
	}
	return &sse{s, made.SessionID + made.Session.SessionID, "0", make(map[string]string)}
}

// log returns the events of the session as JSON lines.
func (d *sse) log() string {
	d.s.t.Helper()
	res := d.s.do(d.s.t.Context(), "GET", "/api/session/"+d.session+"/export?format=jsonl", nil)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.s.t.Fatalf("export: %d, %v", res.StatusCode, err)
	}
	return string(data)
}

// TestProfileForbidsAndApprovesTools runs real agents under profiles, with a
// client that answers no approval. A tool that the profile forbids must not
// run, even if the profile also approves it. An approved tool must run.
func TestProfileForbidsAndApprovesTools(t *testing.T) {
	list := []named{{"claude-code", "Bash", false}, {"codex", "shell", false}, {"claude-agent-acp", "Bash", true}, {"opencode", "bash", true}, {"qwen", "run_shell_command", true}}
	eachNamed(t, list, func(t *testing.T, n named, agent realagents.Binary) {
		s := governed(t, agent, map[string]string{
			"strict":   "---\ndisallowed_tools: [" + n.shell + "]\nauto_approve_tools: [" + n.shell + "]\n---\n",
			"trusting": "---\nauto_approve_tools: [" + n.shell + "]\n---\n",
		})
		words := realagents.ToolsetOf(n.agent)
		for persona, runs := range map[string]bool{"strict": false, "trusting": true} {
			d := s.begin("/api/session/create", map[string]any{"cliType": s.agent, "projectDir": s.home.Project, "options": map[string]any{"persona": persona}})
			file := filepath.Join(s.home.Project, persona)
			got := d.turn(play(step(words.Ask("touch "+file)), done), ignore)
			_, err := os.Stat(file)
			if (err == nil) != runs || got.Status != "completed" && !(got.Status == "cancelled" && !runs) {
				t.Errorf("%s: ran %v, %+v\n%s", persona, err == nil, got, d.log())
			}
			for _, r := range got.Resolved {
				if !strings.HasSuffix(r, " policy") {
					t.Errorf("%s: resolved %q", persona, got.Resolved)
				}
			}
			if strings.Contains(d.log(), "FORBIDDEN_TOOL_RAN") {
				t.Errorf("%s: a forbidden tool ran\n%s", persona, d.log())
			}
			if runs && len(got.Resolved) == 0 {
				t.Errorf("%s: the agent did not ask: %+v", persona, got)
			}
		}
	})
}

// delegators are agents that ask before each delegation.
var delegators = []named{{"claude-code", "", false}, {"claude-agent-acp", "", true}}

// TestGovernedDelegation has real agents delegate under governance. A subagent
// that passes every gate works. A turn with empty governance refuses the
// subagent. In a session without governance the model gets no tool for
// subagents.
func TestGovernedDelegation(t *testing.T) {
	eachNamed(t, delegators, func(t *testing.T, n named, agent realagents.Binary) {
		s := governed(t, agent, map[string]string{
			"lead": "---\nsubagents: [tester]\n---\n", "tester": "---\nAGENT_TYPE: 2\nAGENT_CLASS: TASK\n---\nYou are the tester of this project.\n",
		})
		governance := map[string]any{"contextSealed": true, "pipelineRunApproved": true, "approvalRef": "run-7"}
		create := func(opts map[string]any) *sse {
			return s.begin("/api/harness/session/create", map[string]any{"cliType": s.agent, "projectRoot": s.home.Project, "persona": "lead", "opts": opts})
		}
		d := create(map[string]any{"subagentGovernance": governance})
		got := d.turn(play(step(delegate("Subagent spoke.")), done), ignore)
		if log := d.log(); got.Status != "completed" || !strings.Contains(log, "DELEGATION_ALLOWED") || !slices.Contains(got.Resolved, "allow_once policy") || !slices.Contains(got.Text, done.Text) {
			t.Errorf("allowed: %+v\n%s", got, log)
		}
		if i := slices.IndexFunc(got.Tools, func(tl tool) bool { return tl.Name == "Agent" || tl.Name == "Task" }); i < 0 || got.Tools[i].Failed || !strings.Contains(got.Tools[i].Output, "Subagent spoke.") {
			t.Errorf("the subagent did not work: %+v", got.Tools)
		}

		if !slices.ContainsFunc(s.model.Requests(), func(r fakemodel.Request) bool {
			return bytes.Contains(r.Body, []byte("You are the tester of this project."))
		}) {
			t.Error("the subagent did not get the text of its profile")
		}

		var sent struct{ TurnID string }
		body := map[string]any{"content": play(step(delegate("Must not speak.")), done), "opts": map[string]any{"subagentGovernance": map[string]any{}}}
		if code := s.call("POST", "/api/session/"+d.session+"/send", body, &sent); code != http.StatusAccepted {
			t.Fatalf("send: %d", code)
		}
		(&turns{t: t, s: s, root: s, session: d.session}).over(sent.TurnID, "completed")
		if log := d.log(); !strings.Contains(log, "delegation refused at the gate contextSealed") || !strings.Contains(log, "DELEGATION_REFUSED") {
			t.Errorf("refused: %s", log)
		}

		closed := create(nil)
		before := len(s.model.Requests())
		got = closed.turn(play(step(delegate("Must not speak either.")), done), ignore)
		if got.Status != "completed" || strings.Contains(closed.log(), "FORBIDDEN_TOOL_RAN") {
			t.Errorf("closed: %+v\n%s", got, closed.log())
		}
		for _, r := range s.model.Requests()[before:] {
			if bytes.Contains(r.Body, []byte(`"name":"Agent"`)) && bytes.Contains(r.Body, []byte(`"subagent_type":{`)) {
				t.Error("the model is offered a tool for subagents")
			}
		}
	})
}

// delegate returns a tool call that starts the subagent tester. The subagent's
// answer is says.
func delegate(says string) fakemodel.Block {
	inner := fakemodel.Scenario{Steps: []fakemodel.Step{{Text: says}}}
	return fakemodel.Call("Agent", map[string]any{"description": "Speak", "prompt": inner.Prompt("speak"), "subagent_type": "tester", "run_in_background": false})
}

// TestGovernedSessionHasNoToolForSubagents checks that requests to the model
// offer a tool for subagents only if the agent may delegate.
func TestGovernedSessionHasNoToolForSubagents(t *testing.T) {
	list := []named{{"codex", "", false}, {"codex-acp", "", true}}
	eachNamed(t, list, func(t *testing.T, n named, agent realagents.Binary) {
		s := governed(t, agent, nil)
		for delegation, want := range map[string]bool{"governed": false, "agent": true} {
			opts := map[string]any{"delegation": delegation, "model": "gpt-6.1-sol"} // other models get no tool for subagents
			d := s.begin("/api/session/create", map[string]any{"cliType": s.agent, "projectDir": s.home.Project, "options": opts})
			before := len(s.model.Requests())
			if got := d.turn(play(done), ignore); got.Status != "completed" {
				t.Fatalf("%s: %+v", delegation, got)
			}
			offered := slices.ContainsFunc(s.model.Requests()[before:], func(r fakemodel.Request) bool { return bytes.Contains(r.Body, []byte("spawn_agent")) })
			if offered != want {
				t.Errorf("%s: the tool is offered: %v", delegation, offered)
			}
		}
	})
}
