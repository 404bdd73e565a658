package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/profile"
)

// withResolved has the fields that answers with resolved options share.
type withResolved struct {
	SessionID string
	Resolved  map[string]struct {
		Value any
		From  string
	}
}

// says lists the options with their values and sources, so that a test can
// compare them.
func (w withResolved) says(names ...string) string {
	var out []string
	for _, name := range names {
		r := w.Resolved[name]
		out = append(out, fmt.Sprintf("%s=%v(%s)", name, r.Value, r.From))
	}
	return strings.Join(out, " ")
}

// configured serves p with options of the server's configuration and
// environment, and trusts a project that has a settings file. It returns the
// project's folder.
func configured(t *testing.T, p *recordingAgent, settings string, edit ...func(*gateway.Config)) (*site, string) {
	t.Helper()
	dir := t.TempDir()
	writeSettings(t, dir, settings)
	s := serve(t, func(_ *Config, g *gateway.Config) {
		g.Providers = []runnel.Provider{p}
		g.TrustedDirs = []string{dir}
		g.Options = []profile.Source{
			{From: profile.FromEnvironment, Name: "RUNNEL_MODEL", Options: runnel.Options{Model: "of-environment"}},
			{From: profile.FromGlobal, Name: "config.yaml", Options: runnel.Options{Model: "of-global", ReasoningEffort: "low", Config: runnel.Values{"pace": "fast", "thoughts": "false"}}},
			{From: profile.FromGlobal, Name: "config.yaml", Agent: "another", Options: runnel.Options{PermissionMode: runnel.ModePlan}},
		}
		for _, f := range edit {
			f(g)
		}
	})
	return s, dir
}

// writeSettings replaces the settings file at once, as an editor does: a queued
// prompt reads it again and again, and an empty file is a valid one.
func writeSettings(t *testing.T, dir, settings string) {
	t.Helper()
	file := filepath.Join(dir, profile.ProjectFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func (s *site) createIn(dir, options string) withResolved {
	s.t.Helper()
	return call[withResolved](s.rig, "POST", "/api/session/create", `{"cliType":"script","projectDir":"`+dir+`","options":`+options+`}`, 201)
}

func TestAnswersSayWhichSourceEachOptionIsFrom(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s, dir := configured(t, p, "permissionMode: plan\n")
	names := []string{"model", "permissionMode", "reasoningEffort", "config.pace", "config.thoughts", "tools"}
	check := func(what string, got withResolved, want string) {
		t.Helper()
		if got := got.says(names...); got != want {
			t.Errorf("%s says %s\nwant %s", what, got, want)
		}
	}
	const base = "model=of-environment(environment) permissionMode=plan(project) reasoningEffort=low(global) config.pace=written(session) config.thoughts=false(global) tools=default(agent)"
	created := s.createIn(dir, `{"config":{"pace":"written"}}`)
	id := created.SessionID
	check("create", created, base)
	if o := p.opened[0]; o.Model != "of-environment" || o.PermissionMode != "plan" || o.ReasoningEffort != "low" || o.Config["pace"] != "written" || o.Config["thoughts"] != "false" {
		t.Errorf("the agent was started with %+v", o)
	}
	check("status", call[withResolved](s.rig, "GET", "/api/session/"+id+"/status", "", 200), base)

	const turn = "model=of-turn(turn) permissionMode=plan(project) reasoningEffort=low(global) config.pace=written(session) config.thoughts=false(global) tools=default(agent)"
	w := s.do("POST", "/api/session/"+id+"/send", `{"content":"hang","opts":{"model":"of-turn"}}`)
	var sent withResolved
	if err := json.Unmarshal(w.Body.Bytes(), &sent); err != nil {
		t.Fatal(err)
	}
	check("send", sent, turn)
	busy := turnIn(t, w.Body.Bytes())
	check("status during the turn", call[withResolved](s.rig, "GET", "/api/session/"+id+"/status", "", 200), turn)
	w = s.do("POST", "/api/session/"+id+"/send", `{"content":"text","queue":true,"opts":{"model":"later"}}`)
	queued := turnIn(t, w.Body.Bytes())
	if strings.Contains(w.Body.String(), "resolved") {
		t.Errorf("the queued prompt %s: its options count when its turn starts, but the answer is %s", queued, w.Body)
	}
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/cancel", `{"continueQueue":true}`, 200)
	s.events(id, busy)
	s.events(id, queued)
	s.settled(id)

	res := s.roundTrip("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"text","opts":{"model":"of-turn"}}`)
	frames := framesOf(all(t, res.Body))
	var init withResolved
	if err := json.Unmarshal(frames[0].data, &init); err != nil || frames[0].name != "session:init" {
		t.Fatalf("got %s, %v", frames[0].data, err)
	}
	check("session:init", init, turn)
	s.settled(id)

	changed := call[withResolved](s.rig, "POST", "/api/session/"+id+"/options", `{"model":"of-session"}`, 200)
	check("options", changed, strings.Replace(base, "model=of-environment(environment)", "model=of-session(session)", 1))

	body := call[struct{ Session withResolved }](s.rig, "POST", "/api/harness/session/create", `{"projectRoot":"`+dir+`","opts":{"config":{"pace":"written"}}}`, 200)
	check("harness create", body.Session, base)
}

// Without any source the agent chooses the model, and readers see it once the
// agent has reported it.
func TestResolvedShowsTheModelThatTheAgentChose(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	s.settled(id)
	st := call[withResolved](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
	if got := st.says("model", "permissionMode", "tools"); got != "model=scripted(agent) permissionMode=default(agent) tools=default(agent)" {
		t.Errorf("got %s", got)
	}
}

func TestProjectFileCountsInTrustedFoldersOnly(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s, _ := configured(t, p, "model: of-project\n")
	untrusted := t.TempDir()
	writeSettings(t, untrusted, "model: of-project\nnonsense: 1\n")
	if got := s.createIn(untrusted, `{}`); got.says("model") != "model=of-environment(environment)" {
		t.Errorf("got %s", got.says("model"))
	}
}

// A mistake in a file is an error that names the line, and no agent starts.
func TestInvalidOptionOfASourceNamesItAndTheLine(t *testing.T) {
	timed(t, minute)
	for settings, want := range map[string]string{
		"model: m\npermissionMode: yolo\n":         `config.yaml:2: permissionMode: unknown value \"yolo\"`,
		"modl: m\n":                                `config.yaml:1: unknown key \"modl\"; did you mean model?`,
		"permissionMode: bypass\n":                 `config.yaml:1: permissionMode: a project cannot choose bypass`,
		"mcpServers:\n  a: {command: rm}\n":        `config.yaml:1: mcpServers: cannot be set in a file`,
		"# none\n\nreasoningEffort: very-much ✓\n": `config.yaml:3: reasoningEffort: `,
	} {
		p := new(recordingAgent)
		s, dir := configured(t, p, settings)
		w := s.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+dir+`"}`)
		if w.Code != http.StatusBadRequest || code(w) != "INVALID_REQUEST" || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), dir) {
			t.Errorf("%q: got %d %s, want %s", settings, w.Code, w.Body, want)
		}
		if len(p.opened) > 0 {
			t.Errorf("%q: an agent was started", settings)
		}
	}
}

// The mode bypass needs the server's flag, whatever source it is from.
func TestBypassOfTheConfigurationNeedsTheFlag(t *testing.T) {
	timed(t, minute)
	for _, allowed := range []bool{false, true} {
		p := new(recordingAgent)
		s, dir := configured(t, p, "", func(g *gateway.Config) {
			g.AllowBypass = allowed
			g.Options = []profile.Source{{From: profile.FromGlobal, Name: "config.yaml", Options: runnel.Options{PermissionMode: runnel.ModeBypass}}}
		})
		w := s.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+dir+`"}`)
		if allowed != (w.Code == http.StatusCreated) || !allowed && !strings.Contains(w.Body.String(), "config.yaml: permissionMode: bypass") {
			t.Errorf("allowed %v: got %d %s", allowed, w.Code, w.Body)
		}
	}
}

// Files are read again whenever the agent starts. The session stores only what
// its client gave.
func TestChangedFilesCountForTheNextAgent(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s, dir := configured(t, p, "model: first\n")
	id := s.createIn(dir, `{"reasoningEffort":"high"}`).SessionID
	s.events(id, s.prompt(id, "text"))
	writeSettings(t, dir, "model: second\n")
	turn := s.prompt(id, "text")
	if got := modelOf(s.events(id, turn), turn); got != "first" {
		t.Errorf("the running agent has %q", got)
	}
	s.settled(id)
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
	turn = s.prompt(id, "text")
	if got := modelOf(s.events(id, turn), turn); got != "second" {
		t.Errorf("the next agent has %q", got)
	}
	if got := call[withResolved](s.rig, "GET", "/api/session/"+id+"/status", "", 200); got.says("model", "reasoningEffort") != "model=second(project) reasoningEffort=high(session)" {
		t.Errorf("status says %s", got.says("model", "reasoningEffort"))
	}
	s.settled(id)
	rec, err := s.cat.Session(t.Context(), id)
	if err != nil || string(rec.Options) != `{"reasoningEffort":"high"}` {
		t.Errorf("the record has %s, %v", rec.Options, err)
	}

	// An agent that has crashed is started with the present content of the
	// file.
	crash := s.prompt(id, `{"steps":[{"crash":true}]}`)
	s.events(id, crash)
	writeSettings(t, dir, "model: third\n")
	turn = s.prompt(id, "text")
	if got := modelOf(s.events(id, turn), turn); got != "third" {
		t.Errorf("after a crash the agent has %q", got)
	}
	s.events(id, s.prompt(id, `{"steps":[{"crash":true}]}`))
	writeSettings(t, dir, "modl: x\n")
	w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `config.yaml:1: unknown key`) {
		t.Errorf("with a mistake in the file: %d %s", w.Code, w.Body)
	}
}

// A prompt in the queue was accepted already, so a mistake in a file makes it
// wait.
func TestQueuedPromptWaitsForAMendedFile(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s, dir := configured(t, p, "model: first\n")
	id := s.createIn(dir, `{}`).SessionID
	busy := s.prompt(id, "hang")
	s.until(id, func(ev event.Event) bool { return ev.Turn == busy && is[event.ResponseStart](ev) })
	writeSettings(t, dir, "modl: x\n")
	w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","queue":true,"opts":{"model":"m2"}}`)
	queued := turnIn(t, w.Body.Bytes())
	p.crash()
	s.events(id, busy)
	if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != http.StatusConflict {
		t.Errorf("the queue is empty: %d %s", w.Code, w.Body)
	}
	writeSettings(t, dir, "model: second\n")
	if got := modelOf(s.events(id, queued), queued); got != "m2" {
		t.Errorf("the queued turn ran with %q", got)
	}
	next := s.prompt(id, "text")
	if got := modelOf(s.events(id, next), next); got != "second" {
		t.Errorf("the turn after it ran with %q", got)
	}
}

// An option that an agent takes only at its start can be set for the session
// while no agent runs, and never for one turn.
func TestOptionThatTakesAStartChangesWhileNoAgentRuns(t *testing.T) {
	timed(t, minute)
	p := &recordingAgent{takes: &runnel.Takes{Tools: true, MaxTurns: true, AnyEffort: true, Config: true, Resume: true}}
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	for _, opts := range []string{`{"tools":["Read"]}`, `{"maxTurns":3}`, `{"model":"m2","maxTurns":3}`} {
		w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":`+opts+`}`)
		if w.Code != http.StatusBadRequest || code(w) != "UNSUPPORTED_CAPABILITY" || !strings.Contains(w.Body.String(), "cannot change this for one turn; choose it for the session") {
			t.Errorf("for a turn, %s: %d %s", opts, w.Code, w.Body)
		}
		w = s.do("POST", "/api/session/"+id+"/options", opts)
		if w.Code != http.StatusBadRequest || code(w) != "UNSUPPORTED_CAPABILITY" || !strings.Contains(w.Body.String(), "only when it starts") {
			t.Errorf("for the session, %s: %d %s", opts, w.Code, w.Body)
		}
	}
	if w := s.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+s.dir+`","options":{"tools":[]}}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "tools: is an empty list") {
		t.Errorf("a list without tools: %d %s", w.Code, w.Body)
	}
	if heard := p.take(); len(heard) > 0 {
		t.Errorf("the agent was told %q", heard)
	}
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
	st := call[withResolved](s.rig, "POST", "/api/session/"+id+"/options", `{"model":"m2","tools":["Read"],"maxTurns":3}`, 200)
	if got := st.says("model", "tools", "maxTurns"); got != "model=m2(session) tools=[Read](session) maxTurns=3(session)" {
		t.Errorf("got %s", got)
	}
	w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":{"tools":["Read"],"maxTurns":3}}`) // values that the session has already
	turn := turnIn(t, w.Body.Bytes())
	if got := modelOf(s.events(id, turn), turn); got != "m2" {
		t.Errorf("the turn ran with %q", got)
	}
	if o := p.opened[len(p.opened)-1]; o.MaxTurns != 3 || len(o.Tools) != 1 || o.Model != "m2" {
		t.Errorf("the agent was started with %+v", o)
	}
	s.settled(id)
	if rec, err := s.cat.Session(t.Context(), id); err != nil || string(rec.Options) != `{"maxTurns":3,"model":"m2","tools":["Read"]}` {
		t.Errorf("the record has %s, %v", rec.Options, err)
	}
}

func TestOptionsAreStoredWhenTheChangeIsAnswered(t *testing.T) {
	p := &recordingAgent{takes: &runnel.Takes{MaxTurns: true, Resume: true}}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := rg.create()
	stored := func(want string) {
		t.Helper()
		if rec, err := rg.cat.Session(t.Context(), id); err != nil || string(rec.Options) != want {
			t.Errorf("the record has %s, %v; want %s", rec.Options, err, want)
		}
	}
	for i := range 5 { // the records of sessions are else written some time after a change
		call[json.RawMessage](rg, "POST", "/api/session/"+id+"/options", fmt.Sprintf(`{"model":"m%d"}`, i), 200)
		stored(fmt.Sprintf(`{"model":"m%d"}`, i))
	}
	call[json.RawMessage](rg, "POST", "/api/session/"+id+"/kill", "", 200)
	call[json.RawMessage](rg, "POST", "/api/session/"+id+"/load", "{}", 200)
	call[json.RawMessage](rg, "POST", "/api/session/"+id+"/options", `{"maxTurns":3}`, 200)
	stored(`{"maxTurns":3,"model":"m4"}`)
}

func TestResolvedShowsTheToolsOfAProfile(t *testing.T) {
	for name, tt := range map[string]struct{ profile, want string }{
		"disallowed": {"disallowed_tools: [Bash, Write]", `"disallowedTools":{"value":["Bash","Write"],"from":"profile"}`},
		"approved":   {"auto_approve_tools: [Bash, Read]", `"autoApproveTools":{"value":["Bash","Read"],"from":"profile"}`},
	} {
		t.Run(name, func(t *testing.T) {
			rg := withProfiles(t, map[string]string{"own": "---\n" + tt.profile + "\n---\n"}, nil)
			w := rg.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"persona":"own"}}`)
			if w.Code != 201 || !strings.Contains(w.Body.String(), tt.want) {
				t.Fatalf("create: got %d %s\nwant %s", w.Code, w.Body, tt.want)
			}
			var created withResolved
			if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil {
				t.Fatal(err)
			}
			if w := rg.do("GET", "/api/session/"+created.SessionID+"/status", ""); !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("status: got %s\nwant %s", w.Body, tt.want)
			}
			if w := rg.do("POST", "/api/session/"+created.SessionID+"/send", `{"content":"text"}`); w.Code != 202 || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("send: got %d %s\nwant %s", w.Code, w.Body, tt.want)
			}
		})
	}
}
