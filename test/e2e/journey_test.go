//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A traveller is an agent of the journey test, with its abilities.
type traveller struct {
	named
	subagent string // name of its tool that starts subagents
	to       string // the subagent that it starts; "" if the tool takes no name
	asks     bool   // asks before each delegation
	reads    bool   // runs git status without asking
	model    string // another model that a turn can select; "" if there is none
	variable string // environment variable of its API key; "" if it takes none
}

var travellers = []traveller{
	{named: named{"claude-code", "Bash", false}, subagent: "Agent", to: "tester", asks: true, reads: true, model: "claude-other-1", variable: "ANTHROPIC_API_KEY"},
	{named: named{"codex", "shell", false}, subagent: "spawn_agent", model: "gpt-other-1", variable: "OPENAI_API_KEY"},
	{named: named{"claude-agent-acp", "Bash", false}, subagent: "Agent", to: "tester", asks: true, reads: true, variable: "ANTHROPIC_API_KEY"},
	{named: named{"opencode", "bash", true}, subagent: "task", to: "tester"},
	{named: named{"qwen", "run_shell_command", true}, subagent: "agent", to: "general-purpose", variable: "OPENAI_API_KEY"},
}

// A journey is one user's conversation with one agent over HTTP.
type journey struct {
	*harness
	who   traveller
	words realagents.Toolset
}

// TestJourneyOfAUserThroughTheWholeContract takes one user of each agent
// through the rules of the API, one after the other, on one server and mostly
// in one session. If an agent cannot do a step, the server must reject the
// request with the documented error.
func TestJourneyOfAUserThroughTheWholeContract(t *testing.T) {
	list := make([]named, len(travellers))
	for i, who := range travellers {
		list[i] = who.named
	}
	eachNamed(t, list, func(t *testing.T, n named, agent realagents.Binary) {
		who := travellers[slices.Index(list, n)]
		s := prepare(t, agent)
		s.profile("lead", "subagents: [tester, general-purpose]")
		for _, name := range []string{"tester", "general-purpose"} { // the second is built into Qwen Code
			s.profile(name, "AGENT_TYPE: 2\nAGENT_CLASS: TASK")
		}
		s.profile("strict", "disallowed_tools: ["+who.shell+"]\nauto_approve_tools: ["+who.shell+"]")
		k := keyed{variable: who.variable}
		if who.variable != "" {
			k.set(s, testKey)
		}
		s.launch()
		t.Cleanup(func() { s.stop() })

		j := &journey{&harness{s: s, texts: make(map[string]string)}, who, realagents.ToolsetOf(n.agent)}
		id, code, no := j.create(map[string]any{"subagentGovernance": map[string]any{"contextSealed": true, "pipelineRunApproved": true, "approvalRef": "run-7"}})
		if code != http.StatusOK {
			t.Fatalf("create: %d %+v", code, no.Error)
		}
		j.session = id
		j.forbiddenTool()
		j.delegations()
		j.optionsOfATurn()
		j.rules()
		j.missingKey(k)
		j.retries()
	})
}

// profile writes a profile with this YAML head. Call it before the server
// starts.
func (s *server) profile(name, head string) {
	s.t.Helper()
	dir := filepath.Join(s.home.Dir, "profiles")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte("---\n"+head+"\n---\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if set := "RUNNEL_PROFILES_DIR=" + dir; !slices.Contains(s.env, set) {
		s.env = append(slices.Clone(s.env), set, "RUNNEL_GOVERNED_DELEGATION=true")
	}
}

// create creates a session whose agent is governed by the profile lead, and
// returns its id or the error.
func (j *journey) create(opts map[string]any) (id string, code int, no refused) {
	t := j.s.t
	t.Helper()
	var data json.RawMessage
	code = j.s.call("POST", "/api/harness/session/create", map[string]any{"cliType": j.s.agent, "projectRoot": j.s.home.Project, "persona": "lead", "opts": opts}, &data)
	var made harnessSession
	if err := errors.Join(json.Unmarshal(data, &made), json.Unmarshal(data, &no)); err != nil {
		t.Fatal(err)
	}
	return made.Session.SessionID, code, no
}

// history returns the events of a turn from the session's exported log.
func (j *journey) history(turn string) (evs []event.Event) {
	j.s.t.Helper()
	for line := range strings.Lines((&sse{s: j.s, session: j.session}).log()) {
		var ev event.Event
		if err := json.Unmarshal([]byte(line), &ev); err == nil && ev.Turn == turn {
			evs = append(evs, ev)
		}
	}
	return evs
}

// A taken is a turn that the user has followed to its end.
type taken struct {
	outcome
	id      string
	notices []string // code and message of each
}

// take runs a turn with its own options. settings finds the turn's requests to
// the model by word, which is in the prompt.
func (j *journey) take(word string, opts map[string]any, react func(moment) reaction, steps ...fakemodel.Step) taken {
	t := j.s.t
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	res := j.s.do(ctx, "POST", "/api/harness/turn", map[string]any{"sessionId": j.session, "message": fakemodel.Scenario{Steps: steps}.Prompt(word), "opts": opts})
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("turn: %d %s", res.StatusCode, body)
	}
	var copied strings.Builder
	out := taken{outcome: j.read(io.TeeReader(res.Body, &copied), react)}
	j.frames(strings.NewReader(copied.String()), func(f turnFrame) bool {
		out.id = f.data.TurnID
		return true
	})
	if out.Status == "" {
		t.Fatalf("%s did not end: %s", word, (&sse{s: j.s, session: j.session}).log())
	}
	for _, ev := range j.history(out.id) {
		if n, ok := ev.Body.(event.Notice); ok {
			out.notices = append(out.notices, n.Code+" "+n.Message)
		}
	}
	return out
}

// noticed reports whether the turn has a notice with this code whose message
// contains text.
func (tk taken) noticed(code, text string) bool {
	return slices.ContainsFunc(tk.notices, func(n string) bool { return strings.HasPrefix(n, code+" ") && strings.Contains(n, text) })
}

// forbiddenTool has the agent call a tool that the profile of the turn forbids.
// The tool must not run, and the policy answers instead of the user. An agent
// that does not ask before delegations also gets a notice that it cannot
// delegate.
func (j *journey) forbiddenTool() {
	t := j.s.t
	t.Helper()
	file := filepath.Join(j.s.home.Project, "forbidden")
	got := j.take("forbidden", map[string]any{"persona": "strict"}, ignore, step(j.words.Ask("touch "+file)), done)
	if exists(t, file) || got.Status != "completed" && got.Status != "cancelled" || !resolvedBy(got.outcome, "policy") || got.noticed("FORBIDDEN_TOOL_RAN", "") {
		t.Errorf("forbidden tool: %+v", got)
	}
	if !j.who.asks && !got.noticed("DELEGATION_REFUSED", "gate switch: this agent does not ask before it delegates") {
		t.Errorf("the user is not told that the agent delegates to nobody: %q", got.notices)
	}
}

// delegations has the agent delegate in a turn in which every gate allows it,
// and in a turn whose governance refuses it. Neither turn may fail. In both, an
// agent that does not ask before delegations must not reach a subagent.
func (j *journey) delegations() {
	t := j.s.t
	t.Helper()
	for _, tt := range []struct {
		word, says string
		opts       map[string]any
		allowed    bool
	}{
		{"delegates", "Subagent spoke.", nil, j.who.asks},
		{"refused", "Must not speak.", map[string]any{"subagentGovernance": map[string]any{}}, false},
	} {
		got := j.take(tt.word, tt.opts, ignore, step(j.who.delegate(tt.says)), done)
		spoke := slices.ContainsFunc(got.Tools, func(tl tool) bool { return strings.Contains(tl.Output, tt.says) })
		if got.Status != "completed" || spoke != tt.allowed || got.noticed("DELEGATION_ALLOWED", "") != tt.allowed || got.noticed("FORBIDDEN_TOOL_RAN", "") {
			t.Errorf("%s: %+v", tt.word, got)
		}
		if j.who.asks && !tt.allowed && !got.noticed("DELEGATION_REFUSED", "gate contextSealed") {
			t.Errorf("%s: the gate is not named: %+v", tt.word, got)
		}
	}
}

// delegate returns a tool call that starts a subagent. The subagent's answer is
// says.
func (w traveller) delegate(says string) fakemodel.Block {
	inner := fakemodel.Scenario{Steps: []fakemodel.Step{{Text: says}}}.Prompt("speak")
	if w.subagent == "spawn_agent" {
		return fakemodel.Call(w.subagent, map[string]any{"task_name": "speak", "message": inner, "fork_turns": "none"})
	}
	return fakemodel.Call(w.subagent, map[string]any{"description": "Speak", "prompt": inner, "subagent_type": w.to, "run_in_background": false})
}

// optionsOfATurn runs a turn with its own options between two turns without.
// The options must apply to that turn only.
func (j *journey) optionsOfATurn() {
	t := j.s.t
	t.Helper()
	opts := map[string]any{"permissionMode": "plan", "model": j.who.model}
	if j.who.model == "" {
		opts["model"] = "other-1"
		var no refused
		code := j.s.call("POST", "/api/harness/turn", map[string]any{"sessionId": j.session, "message": "x", "opts": opts}, &no)
		if code != http.StatusBadRequest || no.Error.Type != "INVALID_REQUEST" || !strings.HasPrefix(no.Error.Message, "model: ") {
			t.Errorf("a model that the agent does not have: %d %+v", code, no.Error)
		}
		delete(opts, "model")
	}
	before := j.settings(j.take("before", nil, ignore, done), "before")
	if during := j.settings(j.take("during", opts, ignore, done), "during"); !during.plan || during.model == before.model != (j.who.model == "") {
		t.Errorf("the turn with options ran with %+v, the one before with %+v", during, before)
	}
	if after := j.settings(j.take("after", nil, ignore, done), "after"); after != before {
		t.Errorf("the turn after that with options ran with %+v, the one before with %+v", after, before)
	}
}

// settings are the settings with which a turn ran.
type settings struct {
	model string // the model that the agent requested last
	plan  bool   // the turn was in plan mode
}

// settings returns the settings of a completed turn. word is the word that take
// put into the prompt.
func (j *journey) settings(tk taken, word string) (s settings) {
	t := j.s.t
	t.Helper()
	if tk.Status != "completed" {
		t.Fatalf("%s: %+v", word, tk)
	}
	for _, r := range j.s.model.Requests() {
		var body struct{ Model string }
		if bytes.Contains(r.Body, []byte(word+" <<play")) && json.Unmarshal(r.Body, &body) == nil && body.Model != "" {
			s.model = body.Model
		}
	}
	for _, ev := range j.history(tk.id) {
		if b, ok := ev.Body.(event.SessionUpdated); ok {
			s.plan = s.plan || b.PermissionMode == "plan" || modeIn(b.Config) == "plan"
		}
	}
	return s
}

// rules stores rules that allow two commands. The rules must answer the
// approvals of exactly these commands. A command line that adds a second
// command must ask the user, who denies it.
func (j *journey) rules() {
	t := j.s.t
	t.Helper()
	made, precious := filepath.Join(j.s.home.Project, "made"), filepath.Join(j.s.home.Dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.s.allow("git status")
	j.s.allow("touch " + made)
	if got := j.take("status", nil, ignore, step(j.words.Ask("git status")), done); got.Status != "completed" || resolvedBy(got.outcome, "policy") == j.who.reads {
		t.Errorf("git status: %+v", got)
	}
	if got := j.take("touch", nil, ignore, step(j.words.Ask("touch "+made)), done); got.Status != "completed" || !resolvedBy(got.outcome, "policy") || !exists(t, made) {
		t.Errorf("a command with a rule: %+v", got)
	}
	got := j.take("remove", nil, once(asked, deny), step(j.words.Ask("git status; rm -rf ~/precious")), done)
	if got.Status != "completed" && got.Status != "cancelled" || !resolvedBy(got.outcome, "user") || !exists(t, precious) {
		t.Errorf("a second command behind one with a rule: %+v", got)
	}
}

// missingKey removes the API key from the server's environment. Prompts to a
// session that uses the key must then be rejected before a stream opens.
func (j *journey) missingKey(k keyed) {
	t := j.s.t
	t.Helper()
	id, code, no := j.create(map[string]any{"auth": "api-key"})
	if k.variable == "" {
		if code != http.StatusBadRequest || no.Error.Type != "UNSUPPORTED_CAPABILITY" || no.Error.Details["option"] != "auth" {
			t.Errorf("create with a key that the agent does not take: %d %+v", code, no.Error)
		}
		return
	}
	if code != http.StatusOK {
		t.Fatalf("create with a key: %d %+v", code, no.Error)
	}
	j.s.stop()
	k.set(j.s, "")
	j.s.launch()
	res := j.s.do(t.Context(), "POST", "/api/harness/turn", map[string]any{"sessionId": id, "message": "hello"})
	defer res.Body.Close()
	no = refused{}
	err := json.NewDecoder(res.Body).Decode(&no)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") ||
		no.Error.Type != "MISSING_API_KEY" || !strings.Contains(no.Error.Message, k.variable) || no.Error.Details["provider"] != j.s.agent {
		t.Errorf("turn without the key: %d %v %+v, %v", res.StatusCode, res.Header, no.Error, err)
	}
	j.s.stop()
	k.set(j.s, testKey)
	j.s.launch()
}

// retries cuts the connection of a turn, kills the server while an approval is
// pending, and sends the same prompt again after each. All requests must show
// one turn, which continues with its agent and runs its command once.
func (j *journey) retries() {
	t := j.s.t
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	file := filepath.Join(j.s.home.Project, "counted")
	prompt := play(step(j.words.Ask("echo once >> "+file)), done)
	turns := make(map[string]bool)
	until := func(name string) {
		res := j.open(ctx, prompt, "again")
		defer res.Body.Close()
		seen := false
		j.frames(res.Body, func(f turnFrame) bool {
			turns[f.data.TurnID] = true
			seen = f.name == name
			return !seen
		})
		if !seen {
			t.Fatalf("the stream ended before %s", name)
		}
	}
	until("session:init")
	until("permission:request")
	j.s.crash()
	j.s.launch()
	for _, react := range []func(moment) reaction{once(asked, allow), ignore} {
		res := j.open(ctx, prompt, "again")
		var copied strings.Builder
		got := j.read(io.TeeReader(res.Body, &copied), react)
		res.Body.Close()
		if got.Status != "completed" || !slices.Contains(got.Text, done.Text) || res.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("retry: %+v %v", got, res.Header)
		}
		j.frames(strings.NewReader(copied.String()), func(f turnFrame) bool { turns[f.data.TurnID] = true; return true })
	}
	if len(turns) != 1 {
		t.Errorf("turns %v", turns)
	}
	if text, err := os.ReadFile(file); string(text) != "once\n" {
		t.Errorf("the command left %q, %v", text, err)
	}
	for turn := range turns {
		count := make(map[string]int)
		for _, ev := range j.history(turn) {
			count[event.Type(ev.Body)]++
		}
		if count["response_start"] != 1 || count["response_done"] != 1 {
			t.Errorf("the history has %v", count)
		}
	}
}
