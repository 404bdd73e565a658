package profile

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

// chain has the kinds of sources, strongest first.
var chain = []From{FromTurn, FromSession, FromProfile, FromProject, FromEnvironment, FromGlobal}

// with returns options that have one option, by its name in JSON.
func with(t *testing.T, name string, value any) (opt runnel.Options) {
	t.Helper()
	data, err := json.Marshal(map[string]any{name: value})
	if err == nil {
		err = json.Unmarshal(data, &opt)
	}
	if err != nil {
		t.Fatal(err)
	}
	return opt
}

func TestTheStrictestSandboxCounts(t *testing.T) {
	for _, c := range []struct {
		values [3]runnel.Sandbox // of the session, the profile and the configuration
		want   runnel.Sandbox
		from   From
	}{
		{[3]runnel.Sandbox{"", "", ""}, "", ""},
		{[3]runnel.Sandbox{"off", "", ""}, "off", FromSession},
		{[3]runnel.Sandbox{"off", "", "project"}, "project", FromGlobal},
		{[3]runnel.Sandbox{"off", "project", "off"}, "project", FromProfile},
		{[3]runnel.Sandbox{"project", "off", "project"}, "project", FromSession},
		{[3]runnel.Sandbox{"", "off", "project"}, "project", FromGlobal},
	} {
		var sources []Source
		for i, from := range []From{FromSession, FromProfile, FromGlobal} {
			sources = append(sources, Source{From: from, Options: runnel.Options{Sandbox: c.values[i]}})
		}
		got, by := Resolve(sources...)
		if got.Sandbox != c.want || by["sandbox"].From != c.from {
			t.Errorf("%q: %q from %q, want %q from %q", c.values, got.Sandbox, by["sandbox"].From, c.want, c.from)
		}
	}
}

func TestTheStrictestKeysCount(t *testing.T) {
	for _, c := range []struct {
		values [3]runnel.Keys // of the session, the project and the configuration
		want   runnel.Keys
		from   From
	}{
		{[3]runnel.Keys{"", "", ""}, "", ""},
		{[3]runnel.Keys{"agent", "", ""}, "agent", FromSession},
		{[3]runnel.Keys{"agent", "", "broker"}, "broker", FromGlobal},
		{[3]runnel.Keys{"agent", "broker", "agent"}, "broker", FromProject},
		{[3]runnel.Keys{"broker", "agent", "broker"}, "broker", FromSession},
	} {
		var sources []Source
		for i, from := range []From{FromSession, FromProject, FromGlobal} {
			sources = append(sources, Source{From: from, Options: runnel.Options{Keys: c.values[i]}})
		}
		got, by := Resolve(sources...)
		if got.Keys != c.want || by["keys"].From != c.from {
			t.Errorf("%q: %q from %q, want %q from %q", c.values, got.Keys, by["keys"].From, c.want, c.from)
		}
	}
}

func TestTheStrongestSourceThatHasAnOptionCounts(t *testing.T) {
	values := map[string]func(i int) any{
		"model":              func(i int) any { return "model-" + string(rune('a'+i)) },
		"tools":              func(i int) any { return []string{"Read", string(rune('A' + i))} },
		"maxTurns":           func(i int) any { return i + 1 },
		"permissionMode":     func(i int) any { return []string{"plan", "acceptEdits", "dontAsk", "default", "plan", "dontAsk"}[i] },
		"reasoningEffort":    func(i int) any { return "effort-" + string(rune('a'+i)) },
		"maxThinkingTokens":  func(i int) any { return 1000 * (i + 1) },
		"auth":               func(i int) any { return []string{"api-key", "agent-login"}[i%2] },
		"thinkingDisplay":    func(i int) any { return []string{"omitted", "summarized"}[i%2] },
		"disallowedTools":    nil, // accumulates
		"sandbox":            nil, // the strictest one counts
		"keys":               nil, // the strictest one counts
		"budget":             func(i int) any { return map[string]any{"tokens": i + 1} },
		"turnBudget":         func(i int) any { return map[string]any{"usd": i + 1} },
		"egress":             func(i int) any { return map[string]any{"allow": []string{string(rune('a'+i)) + ".example.com"}} },
		"addDirs":            func(i int) any { return []string{"/dir/" + string(rune('a'+i))} },
		"config":             func(i int) any { return map[string]string{"pace": string(rune('a' + i))} },
		"mcpServers":         func(i int) any { return map[string]any{"server-" + string(rune('a'+i)): map[string]any{}} },
		"systemPromptAppend": func(i int) any { return "text " + string(rune('a'+i)) },
	}
	for _, o := range options {
		value, ok := values[o.name]
		if !ok {
			t.Errorf("%s: is not in this test's table", o.name)
		}
		if value == nil {
			continue
		}
		for strongest := range chain {
			if o.name == "systemPromptAppend" && strongest <= 2 {
				continue // the text of the profile is joined with that of another source
			}
			var sources []Source
			for i := range chain[strongest:] {
				sources = append(sources, Source{From: chain[strongest+i], Options: with(t, o.name, value(strongest+i))})
			}
			got, by := Resolve(sources...)
			want := with(t, o.name, value(strongest))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s from %s: %s", o.name, chain[strongest], diff)
			}
			name := o.name
			if name == "config" {
				name = "config.pace"
			}
			if by[name].From != chain[strongest] {
				t.Errorf("%s from %s: got %+v", o.name, chain[strongest], by[name])
			}
		}
	}
}

// If no source has an option, the agent decides, and tools are its own default
// set.
func TestWithoutASourceTheAgentDecides(t *testing.T) {
	opt, by := Resolve(Source{From: FromSession}, Source{From: FromGlobal})
	if !reflect.DeepEqual(opt, runnel.Options{}) {
		t.Errorf("options were invented: %+v", opt)
	}
	data, _ := json.Marshal(by)
	const want = `{"model":{"from":"agent"},"permissionMode":{"value":"default","from":"agent"},"tools":{"value":"default","from":"agent"}}`
	if string(data) != want {
		t.Errorf("got %s\nwant %s", data, want)
	}
}

func TestEachOfTheAgentsOwnSettingsIsResolvedByItself(t *testing.T) {
	opt, by := Resolve(
		Source{From: FromTurn, Options: runnel.Options{Config: runnel.Values{"a": "turn"}}},
		Source{From: FromSession, Options: runnel.Options{Config: runnel.Values{"a": "session", "b": "session"}}},
		Source{From: FromGlobal, Options: runnel.Options{Config: runnel.Values{"b": "global", "c": "global"}}},
	)
	if diff := cmp.Diff(runnel.Values{"a": "turn", "b": "session", "c": "global"}, opt.Config); diff != "" {
		t.Error(diff)
	}
	for id, from := range map[string]From{"a": FromTurn, "b": FromSession, "c": FromGlobal} {
		if got := by["config."+id]; got.From != from || got.Value != string(from) {
			t.Errorf("config.%s: got %+v", id, got)
		}
	}
}

// A session can add to the text of its profile, but cannot replace it.
func TestTextOfAProfileComesBeforeThatOfTheSession(t *testing.T) {
	add := func(from From, s string) Source {
		return Source{From: from, Options: runnel.Options{SystemPromptAppend: s}}
	}
	opt, by := Resolve(add(FromSession, "be brief"), Of(Profile{Text: "You review."}), add(FromProject, "never used"))
	if opt.SystemPromptAppend != "You review.\n\nbe brief" {
		t.Errorf("got %q", opt.SystemPromptAppend)
	}
	if diff := cmp.Diff(ResolvedOption{Value: "You review.\n\nbe brief", From: FromProfile, Also: []From{FromSession}}, by["systemPromptAppend"]); diff != "" {
		t.Error(diff)
	}
	opt, by = Resolve(add(FromProject, strings.Repeat("x", 1000)))
	if len(opt.SystemPromptAppend) != 1000 || len(by["systemPromptAppend"].Value.(string)) > maxShown {
		t.Errorf("the agent gets %d bytes, readers %v", len(opt.SystemPromptAppend), by["systemPromptAppend"])
	}
}

func TestWhatOneSourceForbidsNoOtherAllows(t *testing.T) {
	forbid := func(from From, tools ...string) Source {
		return Source{From: from, Options: runnel.Options{DisallowedTools: tools}}
	}
	opt, by := Resolve(forbid(FromSession, "Bash"), forbid(FromProject, "Write", "Bash"), Source{From: FromEnvironment}, forbid(FromGlobal, "WebFetch"))
	if diff := cmp.Diff([]string{"Bash", "Write", "WebFetch"}, opt.DisallowedTools); diff != "" {
		t.Error(diff)
	}
	want := ResolvedOption{Value: []string{"Bash", "Write", "WebFetch"}, From: FromSession, Also: []From{FromProject, FromGlobal}}
	if diff := cmp.Diff(want, by["disallowedTools"]); diff != "" {
		t.Error(diff)
	}
}

// shownDisallowed returns the disallowedTools that are shown for a session with
// a profile. sources are the other sources, the session's first.
func shownDisallowed(p Profile, sources []Source) ResolvedOption {
	_, by := Resolve(append([]Source{sources[0], Of(p)}, sources[1:]...)...)
	return by["disallowedTools"]
}

func TestToolsThatAProfileDisallowsAreShownBesideThoseOfOtherSources(t *testing.T) {
	forbid := func(from From, tools ...string) Source {
		return Source{From: from, Options: runnel.Options{DisallowedTools: tools}}
	}
	p := Profile{DisallowedTools: []string{"Bash", "Write"}}
	for name, c := range map[string]struct {
		sources []Source
		want    ResolvedOption
	}{
		"the profile alone": {[]Source{{From: FromSession}}, ResolvedOption{Value: []string{"Bash", "Write"}, From: FromProfile}},
		"the session, too": {[]Source{forbid(FromSession, "Read", "Bash")},
			ResolvedOption{Value: []string{"Read", "Bash", "Write"}, From: FromSession, Also: []From{FromProfile}}},
		"the project, too": {[]Source{{From: FromSession}, forbid(FromProject, "Read")},
			ResolvedOption{Value: []string{"Bash", "Write", "Read"}, From: FromProfile, Also: []From{FromProject}}},
		"all of them": {[]Source{forbid(FromSession, "Read"), forbid(FromProject, "Edit"), forbid(FromGlobal, "Fetch")},
			ResolvedOption{Value: []string{"Read", "Bash", "Write", "Edit", "Fetch"}, From: FromSession, Also: []From{FromProfile, FromProject, FromGlobal}}},
	} {
		if diff := cmp.Diff(c.want, shownDisallowed(p, c.sources)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestResolvedShowsNamesOfServersOnly(t *testing.T) {
	opt, by := Resolve(Source{From: FromSession, Options: runnel.Options{MCPServers: json.RawMessage(`{"b":{"env":{"KEY":"hunter2"}},"a":{}}`)}})
	data, _ := json.Marshal(by)
	if strings.Contains(string(data), "hunter2") || !strings.Contains(string(data), `"value":["a","b"]`) {
		t.Errorf("got %s", data)
	}
	if len(opt.MCPServers) == 0 {
		t.Error("the agent gets no servers")
	}
}

// A hundred runs return the same bytes, whatever the order of Go's maps.
func TestResolvingIsDeterministic(t *testing.T) {
	config := runnel.Values{}
	for i := range 30 {
		config["id"+string(rune('a'+i))] = "x"
	}
	var first string
	for range 100 {
		opt, by := Resolve(
			Source{From: FromSession, Options: runnel.Options{Model: "m", Config: config}},
			Of(Profile{Model: "p", Tools: []string{"Read"}, MaxTurns: 3, Text: "text"}),
			Source{From: FromGlobal, Options: runnel.Options{Config: config, ReasoningEffort: "low"}},
		)
		data, err := json.Marshal(map[string]any{"opt": opt, "by": by})
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(data)
		}
		if string(data) != first {
			t.Fatalf("got %s\nfirst %s", data, first)
		}
	}
}

func TestOptionsOfATurnAreAddedToTheResolved(t *testing.T) {
	_, by := Resolve(Source{From: FromSession, Options: runnel.Options{Model: "m", ReasoningEffort: "low"}})
	before, _ := json.Marshal(by)
	now := by.With(FromTurn, runnel.Settings{Model: "m2", Config: runnel.Values{"pace": "fast"}})
	if now["model"].From != FromTurn || now["model"].Value != "m2" || now["config.pace"].From != FromTurn || now["reasoningEffort"].From != FromSession {
		t.Errorf("got %+v", now)
	}
	if after, _ := json.Marshal(by); string(after) != string(before) {
		t.Errorf("the session's own changed: %s", after)
	}
}

func TestErrorOfAnAgentNamesTheSourceOfTheOptionThatItRejects(t *testing.T) {
	p, err := Parse("reviewer", []byte("---\nmax_turns: 3\nmodel: gone\n---\nText\n"))
	if err != nil {
		t.Fatal(err)
	}
	p.Path = "/profiles/reviewer.md"
	project, err := parseProject("/p/.runnel/config.yaml", []byte("reasoningEffort: huge\nsystemPromptAppend: more\n"))
	if err != nil {
		t.Fatal(err)
	}
	global, err := Global("config.yaml", []byte("config:\n  pace: fast\n"))
	if err != nil {
		t.Fatal(err)
	}
	variable := Source{From: FromEnvironment, Name: "RUNNEL_MODEL", Options: runnel.Options{Model: "gone"}}
	own := Source{From: FromSession, Options: runnel.Options{Model: "gone"}}
	none := Source{From: FromSession}
	for _, tt := range []struct {
		sources        Sources
		rejected, want string // want is empty if the error must not change
	}{
		{Sources{none, Of(p)}, "model: Gemini CLI does not accept gone", `/profiles/reviewer.md:3: the profile "reviewer": model: Gemini CLI does not accept gone`},
		{Sources{none, Of(p), project, variable}, "model: gone", `/profiles/reviewer.md:3: the profile "reviewer": model: gone`},
		{Sources{none, project, variable}, "model: gone", `RUNNEL_MODEL: model: gone`},
		{Sources{none, project, variable}, "reasoningEffort: huge", `/p/.runnel/config.yaml:1: reasoningEffort: huge`},
		{Sources{none, project, global}, "config.pace: fast", `config.yaml:1: config.pace: fast`},
		{Sources{none, project, global}, "config: there is no setting pace", `config.yaml:1: config: there is no setting pace`},
		{Sources{none, project, global}, "config.other: fast", ""},
		{Sources{none, Of(p), project}, "systemPromptAppend: too long", ""},
		{Sources{own, Of(p)}, "model: gone", ""},
		{Sources{none, Of(p)}, "the agent did not start", ""},
		{nil, "model: gone", ""},
	} {
		rejected := runnel.Fail(runnel.InvalidRequest, tt.rejected)
		got := tt.sources.Blame(rejected)
		if tt.want == "" {
			if got != error(rejected) {
				t.Errorf("%s: got %v", tt.rejected, got)
			}
			continue
		}
		if text := runnel.Safe(got).Message; text != tt.want {
			t.Errorf("got  %s\nwant %s", text, tt.want)
		}
	}
}

func TestErrorNamesTheSourceAndTheLineOfAnOption(t *testing.T) {
	check := func(opt runnel.Options) (runnel.Options, error) {
		if opt.Model == "bad" {
			return opt, runnel.Fail(runnel.InvalidRequest, "model: is bad")
		}
		opt.Model = strings.TrimSpace(opt.Model)
		return opt, nil
	}
	s := Source{From: FromProject, Name: "/p/config.yaml", Lines: map[string]int{"model": 4}, Options: runnel.Options{Model: "bad", MaxTurns: 2}}
	_, err := s.Checked(check)
	e, ok := errors.AsType[*runnel.Error](err)
	if !ok || e.Message != "/p/config.yaml:4: model: is bad" || e.Code != runnel.InvalidRequest {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(map[string]any{"option": "model", "source": FromProject, "at": "/p/config.yaml:4"}, e.Details); diff != "" {
		t.Error(diff)
	}
	s = Source{From: FromEnvironment, Name: "RUNNEL_MODEL", Options: runnel.Options{Model: "bad"}}
	if _, err = s.Checked(check); err == nil || !strings.Contains(err.Error(), "RUNNEL_MODEL: model: is bad") {
		t.Errorf("got %v", err)
	}
	s.Options.Model = " good "
	if s, err = s.Checked(check); err != nil || s.Options.Model != "good" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestToolsThatAProfileApprovesAreShown(t *testing.T) {
	for _, tc := range []struct {
		p    Profile
		want any // nil: nothing is shown
	}{
		{Profile{}, nil},
		{Profile{AutoApproveTools: []string{"Read", "mcp__issues"}}, []string{"Read", "mcp__issues"}},
		{Profile{AutoApproveTools: []string{"Read", "bash"}, DisallowedTools: []string{"Bash"}}, []string{"Read"}},
		{Profile{AutoApproveTools: []string{"Bash"}, DisallowedTools: []string{"Bash"}}, nil},
	} {
		_, by := Resolve(Source{From: FromSession}, Of(tc.p), Source{From: FromGlobal})
		got, shown := by["autoApproveTools"]
		if shown != (tc.want != nil) || shown && !cmp.Equal(got, ResolvedOption{Value: tc.want, From: FromProfile}) {
			t.Errorf("%+v: shown is %+v, want %v", tc.p, got, tc.want)
		}
	}
}
