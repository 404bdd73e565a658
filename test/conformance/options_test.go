//go:build unix

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/all"
)

var (
	_ = register(50, optionSources)
	_ = register(51, optionsOverHTTP)
	_ = register(52, optionsOfAgents)
	_ = register(53, invalidOptions)
)

// The sources of options, strongest first, by their names in the tables.
const (
	ofTurn        = "the turn"
	ofSession     = "the session"
	ofProfile     = "the profile"
	ofProject     = "the project settings"
	ofAgent       = "the agent's section of the configuration"
	ofEnvironment = "the environment"
	ofGeneral     = "the general section of the configuration"
	ofNobody      = "the agent's default"
)

// everything is a provider whose agent accepts every option.
type everything struct{ runnel.Provider }

func (everything) Name() string { return "everything" }

func (everything) Takes() runnel.Takes {
	return runnel.Takes{
		Tools: true, MaxTurns: true, MaxThinkingTokens: true, ThinkingDisplay: true, AddDirs: true, SystemPromptAppend: true,
		MCPServers: true, APIKey: true, Broker: true, Sandbox: true, AnyEffort: true, DisallowedTools: true, Config: true,
		ReportsTokens: true, ReportsCost: true,
	}
}

// sourcesOf lists the sources that may set each option, strongest first.
var sourcesOf = []struct {
	option  string
	sources []string
	values  [2]string // JSON of the stronger and the weaker source
}{
	{"model", []string{ofTurn, ofSession, ofProfile, ofProject, ofAgent, ofEnvironment, ofGeneral}, [2]string{`"one"`, `"two"`}},
	{"tools", []string{ofSession, ofProfile, ofProject, ofAgent, ofGeneral}, [2]string{`["Read"]`, `["Write"]`}},
	{"maxTurns", []string{ofSession, ofProfile, ofProject, ofAgent, ofGeneral}, [2]string{`1`, `2`}},
	{"permissionMode", []string{ofTurn, ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`"plan"`, `"dontAsk"`}},
	{"reasoningEffort", []string{ofTurn, ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`"low"`, `"high"`}},
	{"config", []string{ofTurn, ofSession, ofAgent, ofGeneral}, [2]string{`{"pace":"fast"}`, `{"pace":"written"}`}},
	{"maxThinkingTokens", []string{ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`1000`, `2000`}},
	{"disallowedTools", []string{ofTurn, ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`["Bash"]`, `["Write"]`}},
	{"thinkingDisplay", []string{ofTurn, ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`"omitted"`, `"summarized"`}},
	{"addDirs", []string{ofSession, ofAgent, ofGeneral}, [2]string{`["/usr"]`, `["/tmp"]`}},
	{"systemPromptAppend", []string{ofSession, ofProfile, ofProject, ofAgent, ofGeneral}, [2]string{`"one"`, `"two"`}},
	{"mcpServers", []string{ofSession}, [2]string{`{"one":{}}`}},
	{"auth", []string{ofSession}, [2]string{`"api-key"`}},
	{"budget", []string{ofSession, ofAgent, ofGeneral}, [2]string{`{"tokens":1000}`, `{"usd":2}`}},
	{"turnBudget", []string{ofTurn, ofSession, ofAgent, ofGeneral}, [2]string{`{"tokens":1000}`, `{"tokens":2000}`}},
	{"keys", []string{ofSession, ofProject, ofAgent, ofGeneral}, [2]string{`"broker"`, `"agent"`}},
	{"sandbox", []string{ofSession, ofProfile, ofProject, ofAgent, ofGeneral}, [2]string{`"project"`, `"off"`}},
	{"egress", []string{ofSession, ofAgent, ofGeneral}, [2]string{`{"allow":["one.example.com"]}`, `{"sets":["git"]}`}},
}

func optionSources() table {
	tab := table{
		name: "option sources", title: "Options: the value that counts", file: "options_test.go",
		intro: "For each option every two neighbours of the sources that may have it: the row says which source's value an agent starts with, and what `resolved` shows as `from`. " +
			"The check gives the resolver the files as a server reads them, and an agent that takes every option.",
		head: []string{"option", "given by", "and by", "the value and its source"},
	}
	for _, o := range sourcesOf {
		for i, strong := range o.sources {
			weak, outcome := ofNobody, "of "+strong
			if i+1 < len(o.sources) {
				weak = o.sources[i+1]
			}
			switch {
			case weak == ofNobody:
			case o.option == "disallowedTools":
				outcome = "the tools of both, from " + strong + " and also from " + weak
			case o.option == "systemPromptAppend" && strong == ofSession:
				outcome = "the text of the profile, then that of the session, from the profile and also from the session"
			case o.option == "systemPromptAppend" && strong == ofProfile:
				outcome = "the text of the profile, then that of the project settings, from the profile and also from the project settings"
			}
			cells := []string{"`" + o.option + "`", strong, weak, outcome}
			if strong == ofTurn && o.option == "disallowedTools" { // the session's list is added to the turn's
				tab.rows = append(tab.rows, row{cells: cells, test: "httpapi.TestTurnDisallowsToolsForItselfAlone"})
				continue
			}
			tab.rows = append(tab.rows, row{cells: cells, check: func(t *testing.T) {
				checkSources(t, o.option, [2]string{strong, weak}, o.values, outcome)
			}})
		}
	}
	for _, o := range []string{"model", "permissionMode", "tools"} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + o + "`", "no source", ofNobody, "of " + ofNobody + ", and shown in `resolved`"}, check: func(t *testing.T) {
			_, by := resolved(t, nil)
			if by[o].From != profile.FromAgent {
				t.Errorf("got %+v", by[o])
			}
		}})
	}
	for _, o := range []string{"mcpServers", "auth"} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + o + "`", ofProject, "", "no value: the file is refused, because only a session has this option"}, check: func(t *testing.T) {
			dir := folder(t)
			write(t, dir, profile.ProjectFile, o+": x\n")
			if _, _, err := profile.Project(dir); err == nil || !strings.Contains(err.Error(), o+": cannot be set in a file; give it to the session") {
				t.Errorf("got %v", err)
			}
		}})
	}
	for _, given := range [][2]string{{"addDirs", "[/usr]"}, {"config", "{pace: fast}"}, {"egress", "{sets: [git]}"}, {"egress", "{mode: ask}"}, {"budget", "{usd: 5}"}, {"turnBudget", "{usd: 5}"}, {"permissionMode", "bypass"}} {
		o, value := given[0], given[1]
		tab.rows = append(tab.rows, row{cells: []string{"`" + o + "`: " + value, ofProject, "", "no value: the file is refused, because a project must not widen what its agents may do"}, check: func(t *testing.T) {
			dir := folder(t)
			write(t, dir, profile.ProjectFile, o+": "+value+"\n")
			if _, _, err := profile.Project(dir); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("got %v", err)
			}
		}})
	}
	return tab
}

// froms maps the names of the sources in the tables to those in responses.
var froms = map[string]profile.From{
	ofTurn: profile.FromTurn, ofSession: profile.FromSession, ofProfile: profile.FromProfile, ofProject: profile.FromProject,
	ofEnvironment: profile.FromEnvironment, ofAgent: profile.FromGlobal, ofGeneral: profile.FromGlobal,
}

// checkSources resolves an option that two sources set.
func checkSources(t *testing.T, option string, names, values [2]string, outcome string) {
	given := map[string]object{}
	for i, name := range names {
		if name != ofNobody {
			var value any
			if err := json.Unmarshal([]byte(values[i]), &value); err != nil {
				t.Fatal(err)
			}
			given[name] = object{option: value}
		}
	}
	opt, by := resolved(t, given)
	shown := option
	if option == "config" {
		shown = "config.pace"
	}
	want := profile.ResolvedOption{From: froms[names[0]]}
	if strings.Contains(outcome, "from the profile and also from") {
		want.From = profile.FromProfile
	}
	if from := by[shown].From; from != want.From {
		t.Errorf("from: got %s, want %s", from, want.From)
	}
	if also := by[shown].Also; (len(also) > 0) != strings.Contains(outcome, "also") {
		t.Errorf("also: got %v", also)
	}
	if strings.HasPrefix(outcome, "of ") {
		equal(t, option, asJSON(t, opt)[option], given[names[0]][option])
		return
	}
	got := fmt.Sprint(asJSON(t, opt)[option])
	for _, name := range names {
		if one := strings.Trim(fmt.Sprint(given[name][option]), "[]"); !strings.Contains(got, one) {
			t.Errorf("got %s, want %s in it", got, one)
		}
	}
}

// resolved resolves the options of the given sources as a server does.
func resolved(t *testing.T, given map[string]object) (runnel.Options, profile.Resolved) {
	t.Helper()
	dir := folder(t)
	var session runnel.Options
	decodeInto(t, given[ofSession], &session)
	session.Dir, session.Trusted = dir, true
	var prof *profile.Profile
	if own, ok := given[ofProfile]; ok {
		text := own["systemPromptAppend"]
		front := object{}
		for from, to := range map[string]string{"model": "model", "tools": "tools", "maxTurns": "max_turns", "sandbox": "sandbox"} {
			if value, ok := own[from]; ok {
				front[to] = value
			}
		}
		if text == nil {
			text = ""
		}
		p, err := profile.Parse("reviewer", []byte("---\n"+string(encoded(t, front))+"\n---\n"+text.(string)))
		if err != nil {
			t.Fatal(err)
		}
		prof = &p
	}
	if own, ok := given[ofProject]; ok {
		write(t, dir, profile.ProjectFile, string(encoded(t, own)))
	}
	var global []profile.Source
	section := func(name, agent string) {
		if own, ok := given[name]; ok {
			s, err := profile.Global("config.yaml", encoded(t, object{"options": own}), "options")
			if err != nil {
				t.Fatal(err)
			}
			s.Agent = agent
			global = append(global, s)
		}
	}
	section(ofAgent, "everything")
	if own, ok := given[ofEnvironment]; ok {
		global = append(global, profile.Source{From: profile.FromEnvironment, Name: "RUNNEL_MODEL", Options: runnel.Options{Model: own["model"].(string)}})
	}
	section(ofGeneral, "")
	sources, err := profile.ForAgent(everything{}, session, prof, nil, global)
	if err != nil {
		t.Fatal(err)
	}
	opt, by := profile.Resolve(sources...)
	if own, ok := given[ofTurn]; ok {
		var set runnel.Settings
		decodeInto(t, own, &set)
		opt, by = set.Apply(opt), by.With(profile.FromTurn, set)
	}
	return opt, by
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decodeInto(t *testing.T, from object, into any) {
	t.Helper()
	if err := json.Unmarshal(encoded(t, from), into); err != nil {
		t.Fatal(err)
	}
}

func asJSON(t *testing.T, v any) (out object) {
	t.Helper()
	if err := json.Unmarshal(encoded(t, v), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// agentsWithOptions are the agents in the columns of the table, in order.
var agentsWithOptions = []string{"claude-code", "codex", "gemini", "opencode", "copilot", "qwen", "codex-acp", "claude-agent-acp", "script"}

// takenOptions has one letter for each agent: b if it accepts the option at the
// start and for one turn, s if only at the start, - if never.
var takenOptions = []struct{ option, value, letters string }{
	{"model", `"m"`, "bbbbbbbbb"},
	{"permissionMode", `"default"`, "bbbbbbbbb"},
	{"reasoningEffort", `"low"`, "sb-b--bbb"},
	{"tools", `["Read"]`, "s------s-"},
	{"maxTurns", `3`, "s------s-"},
	{"maxThinkingTokens", `1000`, "s--------"},
	{"disallowedTools", `["Bash"]`, "b--s---s-"},
	{"thinkingDisplay", `"omitted"`, "b------s-"},
	{"addDirs", `["/usr"]`, "ss----ss-"},
	{"systemPromptAppend", `"text"`, "ss----ss-"},
	{"mcpServers", `{}`, "ssssssss-"},
	{"config", `{"x":"y"}`, "-bbbbbbbb"},
	{"auth", `"api-key"`, "sss--s-s-"},
	{"budget", `{"minutes":60}`, "sssssssss"},
	{"turnBudget", `{"minutes":60}`, "bbbbbbbbb"},
	{"keys", `"broker"`, "sss--s-s-"},
	{"sandbox", `"project"`, "ssss-s---"},
	{"egress", `{"sets":["git"]}`, "ssss-s---"},
}

// optionsOfAgents returns the table of how each agent handles each option.
func optionsOfAgents() table {
	const (
		start, both, refused = "at the start", "at the start and for one turn", "refused with UNSUPPORTED_CAPABILITY"
	)
	agents := agentsWithOptions
	tab := table{
		name: "options of agents", title: "Options: which agent takes which", file: "options_test.go",
		intro: "What each agent does with each option when its session is created, and in the `opts` of a prompt. The check asks each provider before it starts anything; " +
			"the next table says how it is known that the agents do so. A value that only a running agent can judge, such as the efforts of a model, is refused in its handshake.",
		head: append([]string{"option"}, agents...),
	}
	for _, o := range takenOptions {
		cells := []string{"`" + o.option + "`"}
		for _, letter := range o.letters {
			cells = append(cells, map[rune]string{'b': both, 's': start, '-': refused}[letter])
		}
		tab.rows = append(tab.rows, row{cells: cells, check: func(t *testing.T) {
			var opt runnel.Options
			decodeInto(t, object{o.option: json.RawMessage(o.value)}, &opt)
			var got strings.Builder
			for _, name := range agents {
				got.WriteByte(takes(t, name, o.option, opt))
			}
			if got.String() != o.letters {
				t.Errorf("got %s, want %s", got.String(), o.letters)
			}
		}})
	}
	return tab
}

// takes returns the letter for how an agent handles an option.
func takes(t *testing.T, name, option string, opt runnel.Options) byte {
	t.Helper()
	i := slices.IndexFunc(all.Providers(), func(p runnel.Provider) bool { return p.Name() == name })
	if i < 0 {
		t.Fatalf("there is no provider %s", name)
	}
	p := all.Providers()[i]
	if option == "config" {
		if t, ok := p.(runnel.OptionTaker); ok && len(t.Takes().Settings) > 0 {
			opt.Config = runnel.Values{t.Takes().Settings[0].ID: t.Takes().Settings[0].Value}
		}
	}
	_, err := runnel.CheckOptions(p, opt, nil)
	if runnel.CodeOf(err) == runnel.UnsupportedCapability {
		set, err := runnel.TurnSettings(p, opt)
		if err == nil {
			_, err = runnel.CheckSettings(p, runnel.Options{}, set, nil)
		}
		if runnel.CodeOf(err) != runnel.UnsupportedCapability {
			t.Errorf("%s for one turn: got %v", name, err)
		}
		return '-'
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := runnel.TurnSettings(p, opt); err != nil {
		return 's'
	}
	conn := p.(runnel.ConnPrototype).Prototype()
	can := map[string]bool{"turnBudget": true} // the session enforces it
	_, can["model"] = conn.(runnel.ModelSetter)
	_, can["permissionMode"] = conn.(runnel.ModeSetter)
	_, can["reasoningEffort"] = conn.(runnel.EffortSetter)
	_, can["config"] = conn.(runnel.ConfigSetter)
	_, can["disallowedTools"] = conn.(runnel.ToolDisallower)
	_, can["thinkingDisplay"] = conn.(runnel.ThinkingDisplayer)
	if can[option] {
		return 'b'
	}
	return 's'
}

// optionsOverHTTP returns the table of the options in responses of a server.
func optionsOverHTTP() table {
	var s server
	tab := table{
		name: "options over http", title: "Options: over HTTP", file: "options_test.go",
		intro: "The same sources with the scripted agent and a server whose environment has `RUNNEL_MODEL`, whose configuration has options for all agents and for this one, and which trusts the project.",
		head:  []string{"option", "case", "outcome"},
	}
	tab.setup = func(t *testing.T) { startWithOptions(t, &s) }
	resolve := func(option, of, session, persona, trusted, value, from string) {
		what := "from " + from + ", `" + value + "`"
		tab.rows = append(tab.rows, row{cells: []string{"`" + option + "`", of, what}, check: func(t *testing.T) {
			options := object{}
			if session != "" {
				if err := json.Unmarshal([]byte(session), &options); err != nil {
					t.Fatal(err)
				}
			}
			if persona != "" {
				options["persona"] = persona
			}
			dir := s.project
			if trusted != "" {
				dir = filepath.Join(s.Home, trusted)
			}
			created := s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir, "options": options}).ok(t, http.StatusCreated)
			equal(t, "value", at(created, "resolved", option, "value"), value)
			equal(t, "from", at(created, "resolved", option, "from"), from)
			status := s.get(t, "/api/session/"+created["sessionId"].(string)+"/status").ok(t, http.StatusOK)
			equal(t, "status", at(status, "resolved", option), at(created, "resolved", option))
		}})
	}
	resolve("model", "session and profile", `{"model":"of-session"}`, "reviewer", "", "of-session", "session")
	resolve("model", "profile and project settings", "", "reviewer", "trusted", "of-profile", "profile")
	resolve("model", "project settings and environment", "", "", "trusted", "of-project", "project")
	resolve("model", "environment and the general section", "", "", "", "of-environment", "environment")
	resolve("model", "project settings of an untrusted folder, and environment", "", "", "untrusted", "of-environment", "environment")
	resolve("permissionMode", "session and project settings", `{"permissionMode":"acceptEdits"}`, "", "trusted", "acceptEdits", "session")
	resolve("permissionMode", "project settings and the agent's section", "", "", "trusted", "plan", "project")
	resolve("permissionMode", "the agent's section and the general section", "", "", "", "dontAsk", "global")
	resolve("reasoningEffort", "the general section alone", "", "", "", "low", "global")
	resolve("reasoningEffort", "session and the general section", `{"reasoningEffort":"high"}`, "", "", "high", "session")
	resolve("config.pace", "the agent's section and the general section", "", "", "", "fast", "global")
	resolve("config.pace", "session and the agent's section", `{"config":{"pace":"written"}}`, "", "", "written", "session")
	resolve("tools", "no source", "", "", "", "default", "agent")
	tab.rows = append(tab.rows, row{cells: []string{"`model`", "`CHIRALITY_GLOBAL_MODEL`, and no `RUNNEL_MODEL`", "from environment"}, test: "cmd/runnel.TestScripts"})
	tab.rows = append(tab.rows, turnRows(&s)...)
	tab.rows = append(tab.rows, refusedRows(&s)...)
	return tab
}

func startWithOptions(t *testing.T, s *server) {
	t.Helper()
	s.Home = folder(t)
	for _, name := range []string{"trusted", "untrusted"} {
		write(t, filepath.Join(s.Home, name), profile.ProjectFile, "model: of-project\npermissionMode: plan\n")
	}
	write(t, s.Home, "profiles/reviewer.md", "---\nmodel: of-profile\n---\n")
	config := write(t, s.Home, "config.yaml", "trusted-folders: ["+filepath.Join(s.Home, "trusted")+"]\nprofiles-dir: "+filepath.Join(s.Home, "profiles")+`
options: {model: of-general, permissionMode: acceptEdits, reasoningEffort: low, config: {pace: written}}
agents:
  script:
    options: {permissionMode: dontAsk, config: {pace: fast}}
`)
	s.Env = []string{"HOME=" + s.Home, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "RUNNEL_MODEL=of-environment", "RUNNEL_CONFIG=" + config}
	s.start(t)
}

// turnRows returns the rows about options of one turn.
func turnRows(s *server) []row {
	var rows []row
	for _, o := range []struct{ option, value string }{
		{"model", `"of-turn"`}, {"permissionMode", `"plan"`}, {"reasoningEffort", `"medium"`}, {"config.pace", `{"pace":"written"}`},
	} {
		rows = append(rows, row{cells: []string{"`" + o.option + "`", "turn and session", "from turn while the turn runs, and that of the session afterwards"}, check: func(t *testing.T) {
			name, _, isConfig := strings.Cut(o.option, ".")
			var want any
			if err := json.Unmarshal([]byte(o.value), &want); err != nil {
				t.Fatal(err)
			}
			session := s.session(t, nil)
			before := at(s.get(t, "/api/session/"+session+"/status").ok(t, http.StatusOK), "resolved", o.option)
			sent := s.post(t, "/api/session/"+session+"/send", object{"content": script(object{"text": "done"}), "opts": object{name: want}}).ok(t, http.StatusAccepted)
			if isConfig {
				want = at(want, "pace")
			}
			equal(t, "of the turn", at(sent, "resolved", o.option), object{"value": want, "from": "turn"})
			s.turn(t, session, sent["turnId"].(string))
			next := s.post(t, "/api/session/"+session+"/send", object{"content": script(object{"text": "done"})}).ok(t, http.StatusAccepted)
			equal(t, "of the next turn", at(next, "resolved", o.option), before)
			s.turn(t, session, next["turnId"].(string))
		}})
	}
	return rows
}

// refusedRows returns the rows about options that are rejected or ignored.
func refusedRows(s *server) []row {
	var rows []row
	for _, o := range []struct{ option, options, outcome string }{
		{"an unknown name", `{"futureOption":true}`, `warning: "futureOption": unknown, ignored`},
		{"a name that differs in the case of letters", `{"Model":"m"}`, "INVALID_REQUEST"},
		{"`tools`", `{"tools":["Read"]}`, "UNSUPPORTED_CAPABILITY"},
		{"`maxTurns`", `{"maxTurns":1}`, "UNSUPPORTED_CAPABILITY"},
		{"`maxThinkingTokens`", `{"maxThinkingTokens":1}`, "UNSUPPORTED_CAPABILITY"},
		{"`disallowedTools`", `{"disallowedTools":["Bash"]}`, "UNSUPPORTED_CAPABILITY"},
		{"`thinkingDisplay`", `{"thinkingDisplay":"omitted"}`, "UNSUPPORTED_CAPABILITY"},
		{"`addDirs`", `{"addDirs":["/usr"]}`, "UNSUPPORTED_CAPABILITY"},
		{"`systemPromptAppend`", `{"systemPromptAppend":"text"}`, "UNSUPPORTED_CAPABILITY"},
		{"`mcpServers`", `{"mcpServers":{}}`, "UNSUPPORTED_CAPABILITY"},
		{"`auth`", `{"auth":"api-key"}`, "UNSUPPORTED_CAPABILITY"},
		{"`keys`", `{"keys":"broker"}`, "UNSUPPORTED_CAPABILITY"},
		{"`sandbox`", `{"sandbox":"project"}`, "UNSUPPORTED_CAPABILITY"},
		{"`egress`", `{"egress":{"sets":["git"]}}`, "UNSUPPORTED_CAPABILITY"},
		{"`mode`", `{"mode":"fast"}`, "UNSUPPORTED_CAPABILITY"},
	} {
		for _, where := range []string{"of a session", "of a turn"} {
			field := "options."
			if where == "of a turn" {
				field = "opts."
			}
			warning, ignored := strings.CutPrefix(o.outcome, "warning: ")
			warning = field + warning
			outcome := "refused with " + o.outcome + ", and nothing is started"
			if ignored {
				outcome = "ignored, with a warning: " + warning
			}
			rows = append(rows, row{cells: []string{o.option, "options " + where, outcome}, check: func(t *testing.T) {
				var a answer
				status := http.StatusCreated
				if where == "of a session" {
					a = s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": s.project, "options": json.RawMessage(o.options)})
				} else {
					session := s.session(t, nil)
					a = s.post(t, "/api/session/"+session+"/send", object{"content": "text", "opts": json.RawMessage(o.options)})
					status = http.StatusAccepted
				}
				if ignored {
					equal(t, "warnings", at(a.ok(t, status), "warnings", 0), warning)
					return
				}
				a.fails(t, http.StatusBadRequest, o.outcome)
			}})
		}
	}
	return rows
}

func invalidOptions() table {
	tab := table{
		name: "invalid options", title: "Options: invalid values", file: "options_test.go",
		intro: "An invalid value is an error that names the option and the value, whoever gives it. The check asks for an agent that takes every option.",
		head:  []string{"option", "value", "message"},
	}
	for _, o := range []struct{ option, value, message string }{
		{"model", `"  "`, "model: is blank; leave it out for the agent's default (invalid agent_api.config.model.v1)"},
		{"model", `"` + strings.Repeat("m", 129) + `"`, "model: has 129 bytes; at most 128 are allowed (invalid agent_api.config.model.v1)"},
		{"tools", `[]`, "tools: is an empty list; name tools, or leave it out for the agent's own"},
		{"tools", `["Bash(ls)"]`, `tools.0: "Bash(ls)" is not the name of a tool; it has letters, digits and . _ : / @ -`},
		{"maxTurns", `-1`, "maxTurns: -1 is negative; give 1 or more, or leave it out"},
		{"permissionMode", `"yolo"`, `permissionMode: unknown value "yolo"; want default, acceptEdits, plan, dontAsk or bypass`},
		{"permissionMode", `"bypass"`, "permissionMode: bypass runs every tool without asking, which is not allowed here; a server allows it with --allow-bypass"},
		{"reasoningEffort", `"very high"`, `reasoningEffort: "very high" is not the name of an effort; it has letters, digits and . _ : / @ -`},
		{"config", `{"":"x"}`, "config: an id has 1 to 200 bytes, a value up to 1000"},
		{"maxThinkingTokens", `-5`, "maxThinkingTokens: -5 is negative; give 1 or more, or leave it out"},
		{"disallowedTools", `["a b"]`, `disallowedTools.0: "a b" is not the name of a tool; it has letters, digits and . _ : / @ -`},
		{"thinkingDisplay", `"loud"`, `thinkingDisplay: unknown value "loud"; want summarized or omitted`},
		{"addDirs", `["~/src"]`, `addDirs.0: "~/src" is not an absolute path; ~ is not expanded (invalid agent_api.exec.add_dirs.v1.dirs[0])`},
		{"addDirs", `["/usr","/no/such/folder"]`, `addDirs.1: "/no/such/folder" is not a directory that can be reached (invalid agent_api.exec.add_dirs.v1.dirs[1])`},
		{"systemPromptAppend", `"a\u0000b"`, "systemPromptAppend: contains a NUL character or is not valid UTF-8; agents accept neither"},
		{"mcpServers", `[]`, "mcpServers: must be a JSON object of servers by name"},
		{"budget", `{"minutes":-1}`, "budget.minutes: -1 is not a positive number of at most 527040"},
		{"turnBudget", `{"tokens":-1}`, "turnBudget.tokens: -1 is not a positive number of at most 1000000000000"},
		{"keys", `"server"`, `keys: unknown value "server"; want agent or broker`},
		{"sandbox", `"all"`, `sandbox: unknown value "all"; want off, files or project`},
		{"egress", `{"allow":["https://example.com"]}`, `egress.allow.0: "https://example.com": is not a host name; want such as example.com, *.example.com, example.com:8443, 10.0.0.0/8 or localhost:8080, without https://`},
		{"egress", `{"allow":["localhost"]}`, `egress.allow.0: "localhost": write the port of this machine as a number, such as localhost:8080`},
		{"egress", `{"sets":["all"]}`, `egress.sets.0: unknown set "all"; want git or packages`},
		{"egress", `{"mode":"allow"}`, `egress.mode: unknown value "allow"; want deny or ask`},
		{"auth", `"password"`, `auth: unknown value "password"; want agent-login or api-key`},
	} {
		value := o.value
		if len(value) > 100 {
			value = "129 letters"
		}
		tab.rows = append(tab.rows, row{cells: []string{"`" + o.option + "`", "`" + value + "`", o.message}, check: func(t *testing.T) {
			var opt runnel.Options
			decodeInto(t, object{o.option: json.RawMessage(o.value)}, &opt)
			_, err := runnel.CheckOptions(everything{}, opt, nil)
			if runnel.CodeOf(err) != runnel.InvalidRequest || runnel.Safe(err).Message != o.message {
				t.Errorf("got %v", err)
			}
		}})
	}
	tab.rows = append(tab.rows, row{cells: []string{"`egress`", "any value, with `sandbox: files` of the same or of another source", "egress: sandbox: files does not limit the network, so it cannot enforce this list; use sandbox: project, or leave egress out"}, test: "test/guardrails.TestEgressIsRefusedInASandboxOfFiles"},
		row{cells: []string{"any option", "an invalid value in a file", "the same message, after the name of the file and the line"}, test: "httpapi.TestInvalidOptionOfASourceNamesItAndTheLine"},
		row{cells: []string{"any option", "an invalid value in a request", "the same message, on every route that takes options"}, test: "httpapi.TestEveryRouteRefusesOptionsAlike"})
	return tab
}
