package all

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// An optionCase is one option of every agent: who takes it, a value that is
// fine, and values that are nonsense for everybody who takes it.
type optionCase struct {
	name     string
	takers   []string // names of providers; nil: all
	fine     func(*runnel.Options)
	nonsense []func(*runnel.Options)
}

var acpAgents = []string{"codex-acp", "claude-agent-acp", "opencode", "gemini", "copilot", "qwen", "mine"}

// withACPAgents returns acpAgents and others.
func withACPAgents(others ...string) []string { return append(others, acpAgents...) }

func optionCases(t *testing.T) []optionCase {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(f func(*runnel.Options)) func(*runnel.Options) { return f }
	dirs := func(list ...string) func(*runnel.Options) {
		return func(o *runnel.Options) { o.AddDirs = list }
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(many[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	servers := func(text string) func(*runnel.Options) {
		return func(o *runnel.Options) { o.MCPServers = json.RawMessage(text) }
	}
	return []optionCase{
		{"model", nil, set(func(o *runnel.Options) { o.Model = " m " }), []func(*runnel.Options){
			func(o *runnel.Options) { o.Model = "  " },
			func(o *runnel.Options) { o.Model = strings.Repeat("m", 129) },
			func(o *runnel.Options) { o.Model = "m\x00" },
		}},
		{"tools", []string{"claude-code", "claude-agent-acp"}, func(o *runnel.Options) { o.Tools = []string{"Read"} }, []func(*runnel.Options){
			func(o *runnel.Options) { o.Tools = []string{"Read", "--settings={}"} },
			func(o *runnel.Options) { o.Tools = []string{""} },
		}},
		{"maxTurns", []string{"claude-code", "claude-agent-acp"}, func(o *runnel.Options) { o.MaxTurns = 3 }, []func(*runnel.Options){
			func(o *runnel.Options) { o.MaxTurns = -1 },
		}},
		{"permissionMode", nil, func(o *runnel.Options) { o.PermissionMode = runnel.ModeDefault }, []func(*runnel.Options){
			func(o *runnel.Options) { o.PermissionMode = "yolo" },
			func(o *runnel.Options) { o.PermissionMode = runnel.ModeBypass }, // without AllowBypass
		}},
		{"reasoningEffort", []string{"claude-code", "codex", "codex-acp", "claude-agent-acp", "opencode", "mine", "script"},
			func(o *runnel.Options) { o.ReasoningEffort = "high" }, []func(*runnel.Options){
				func(o *runnel.Options) { o.ReasoningEffort = "-c x=1" },
				func(o *runnel.Options) { o.ReasoningEffort = strings.Repeat("x", 201) },
			}},
		{"config", withACPAgents("codex", "script"), nil, []func(*runnel.Options){
			func(o *runnel.Options) { o.Config = runnel.Values{"": "x"} },
			func(o *runnel.Options) { o.Config = runnel.Values{"pace": strings.Repeat("x", 1001)} },
		}},
		{"maxThinkingTokens", []string{"claude-code"}, func(o *runnel.Options) { o.MaxThinkingTokens = 1000 }, []func(*runnel.Options){
			func(o *runnel.Options) { o.MaxThinkingTokens = -1 },
		}},
		{"addDirs", []string{"claude-code", "codex", "codex-acp", "claude-agent-acp", "mine"}, dirs(dir, dir+"/"), []func(*runnel.Options){
			dirs("relative"), dirs("~/src"), dirs(filepath.Join(dir, "missing")), dirs(file), dirs(many...),
			dirs(dir, "/"+strings.Repeat("x", 1024)), dirs(""),
		}},
		{"systemPromptAppend", []string{"claude-code", "codex", "codex-acp", "claude-agent-acp"}, func(o *runnel.Options) { o.SystemPromptAppend = "Be brief." }, []func(*runnel.Options){
			func(o *runnel.Options) { o.SystemPromptAppend = "a\x00b" },
			func(o *runnel.Options) { o.SystemPromptAppend = "a\xffb" },
		}},
		{"mcpServers", withACPAgents("claude-code", "codex"), servers(`{"s":{"command":"true"}}`), []func(*runnel.Options){
			servers(`[]`), servers(`"x"`), servers(`null`), servers(`{"s":1}`), servers(`{`),
		}},
		{"disallowedTools", []string{"claude-code", "claude-agent-acp", "opencode"}, func(o *runnel.Options) { o.DisallowedTools = []string{"WebSearch"} }, []func(*runnel.Options){
			func(o *runnel.Options) { o.DisallowedTools = []string{"--settings={}"} },
			func(o *runnel.Options) { o.DisallowedTools = []string{""} },
		}},
		{"thinkingDisplay", []string{"claude-code", "claude-agent-acp"}, func(o *runnel.Options) { o.ThinkingDisplay = runnel.ThinkingOmitted }, []func(*runnel.Options){
			func(o *runnel.Options) { o.ThinkingDisplay = "shown" },
		}},
		{"auth", nil, func(o *runnel.Options) { o.Auth = runnel.AuthAgentLogin }, []func(*runnel.Options){
			func(o *runnel.Options) { o.Auth = runnel.AuthAPIKey + "s" },
		}},
		{"budget", nil, func(o *runnel.Options) { o.Budget.Minutes = 1 }, []func(*runnel.Options){
			func(o *runnel.Options) { o.Budget.Minutes = -1 },
			func(o *runnel.Options) { o.Budget.Tokens = -1 },
			func(o *runnel.Options) { o.Budget.USD = math.NaN() },
		}},
		{"turnBudget", nil, func(o *runnel.Options) { o.TurnBudget.Minutes = 1 }, []func(*runnel.Options){
			func(o *runnel.Options) { o.TurnBudget.USD = -1 },
			func(o *runnel.Options) { o.TurnBudget.Tokens = 1 << 60 },
		}},
		{"keys", []string{"claude-code", "codex", "claude-agent-acp", "gemini", "qwen"}, nil, []func(*runnel.Options){
			func(o *runnel.Options) { o.Keys = "server" },
			func(o *runnel.Options) { o.Keys, o.Auth = runnel.KeysBroker, runnel.AuthAgentLogin },
		}},
		{"sandbox", []string{"claude-code", "codex", "gemini", "qwen", "opencode"}, nil, []func(*runnel.Options){
			func(o *runnel.Options) { o.Sandbox = "Project" },
			func(o *runnel.Options) { o.Sandbox = "none" },
		}},
		{"egress", []string{"claude-code", "codex", "gemini", "qwen", "opencode"}, func(o *runnel.Options) { o.Egress.Allow = []string{"example.com"} }, []func(*runnel.Options){
			func(o *runnel.Options) { o.Egress.Allow = []string{"https://example.com"} },
			func(o *runnel.Options) { o.Egress.Sets = []string{"all"} },
		}},
		{"resume", []string{"claude-code", "codex", "codex-acp", "claude-agent-acp", "opencode", "gemini", "copilot", "qwen", "mine", "script"},
			func(o *runnel.Options) { o.Resume = "0b5d3c1e-0000-7000-8000-000000000000" }, nil},
	}
}

// openCounter counts the calls of Open of a provider that runs no program.
type openCounter struct {
	runnel.Provider
	opened *int
}

func (c openCounter) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	*c.opened++
	return c.Provider.Open(ctx, opt)
}

func (c openCounter) Takes() runnel.Takes { return c.Provider.(runnel.OptionTaker).Takes() }

// spawnDetector is a provider whose program writes the file trace and exits.
type spawnDetector struct {
	runnel.Provider
	trace  string
	opened *int
}

func (tr spawnDetector) spawned() bool {
	_, err := os.Stat(tr.trace)
	return err == nil || *tr.opened > 0
}

func (tr spawnDetector) reset() {
	_ = os.Remove(tr.trace)
	*tr.opened = 0
}

func spawnDetectors(t *testing.T) []spawnDetector {
	t.Helper()
	list, err := Configured(map[string]Agent{"mine": {Protocol: "acp", Command: []string{"/bin/false"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out []spawnDetector
	for _, p := range list {
		dir, opened := t.TempDir(), 0
		tr := spawnDetector{p, filepath.Join(dir, "spawned"), &opened}
		if pr, ok := p.(runnel.Programmable); ok {
			program := filepath.Join(dir, "agent")
			if err := testexec.Write(program, "#!/bin/sh\n: > '"+tr.trace+"'\nexit 1\n"); err != nil {
				t.Fatal(err)
			}
			tr.Provider = pr.WithProgram([]string{program}, nil)
		} else {
			tr.Provider = openCounter{p, &opened}
		}
		out = append(out, tr)
	}
	return out
}

// An option that is nonsense, or that an agent lacks, is refused alike for all
// agents and by every way to start one, before any process is started.
func TestOptionsAreRefusedBeforeAnythingIsSpawned(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the trap is a shell script")
	}
	cases := optionCases(t)
	covered := map[string]bool{"resume": true}
	for _, c := range cases {
		covered[c.name] = true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[runnel.Options]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && !covered[name] {
			t.Errorf("no case for the option %s", name)
		}
	}
	for _, tr := range spawnDetectors(t) {
		t.Run(tr.Name(), func(t *testing.T) {
			for _, c := range cases {
				takes := c.takers == nil || slices.Contains(c.takers, tr.Name())
				for i, set := range c.nonsense {
					want := runnel.InvalidRequest
					if !takes {
						want = runnel.UnsupportedCapability
					}
					tr.refuses(t, fmt.Sprintf("%s, nonsense %d", c.name, i), set, want)
				}
				switch {
				case c.fine == nil:
				case !takes:
					tr.refuses(t, c.name, c.fine, runnel.UnsupportedCapability)
				default:
					tr.starts(t, c.name, c.fine)
				}
			}
		})
	}
}

// options returns those of a case, in a project of its own.
func (tr spawnDetector) options(t *testing.T, set func(*runnel.Options)) runnel.Options {
	t.Helper()
	opt := runnel.Options{Dir: t.TempDir()}
	set(&opt)
	tr.reset()
	return opt
}

func (tr spawnDetector) refuses(t *testing.T, what string, set func(*runnel.Options), want runnel.Code) {
	t.Helper()
	ways := map[string]func(runnel.Options) error{
		"Open": func(opt runnel.Options) error {
			s, err := runnel.Open(t.Context(), tr, opt, runnel.Config{})
			if err == nil {
				_ = s.Close()
			}
			return err
		},
		"Start": func(opt runnel.Options) error {
			r, err := runnel.Start(t.Context(), tr, opt, runnel.Text("text"))
			if err == nil {
				_ = r.Close()
			}
			return err
		},
	}
	for way, start := range ways {
		err := start(tr.options(t, set))
		if runnel.CodeOf(err) != want || !strings.HasPrefix(runnel.Safe(err).Message, strings.SplitN(what, ",", 2)[0]) {
			t.Errorf("%s by %s: got %v, want %s about it", what, way, err, want)
		}
		if tr.spawned() {
			t.Errorf("%s by %s: the agent was started", what, way)
		}
	}
}

func (tr spawnDetector) starts(t *testing.T, what string, set func(*runnel.Options)) {
	t.Helper()
	s, err := runnel.Open(t.Context(), tr, tr.options(t, set), runnel.Config{})
	if err == nil {
		_ = s.Close()
	}
	if !tr.spawned() {
		t.Errorf("%s: the agent takes the option and was not started: %v", what, err)
	}
}

// Takes keeps the declaration of the provider in the spawnDetector.
func (tr spawnDetector) Takes() runnel.Takes { return tr.Provider.(runnel.OptionTaker).Takes() }

// An effort that no model of an agent has is refused with the agent's words.
func TestUnknownEffortIsRefusedBeforeAnythingIsSpawned(t *testing.T) {
	for _, tr := range spawnDetectors(t) {
		if len(tr.Takes().Efforts) == 0 {
			continue // it has none, or only a conversation shows them
		}
		tr.refuses(t, "reasoningEffort, banana", func(o *runnel.Options) { o.ReasoningEffort = "banana" }, runnel.InvalidRequest)
	}
}

// An agent that was never probed refuses an unknown setting itself.
func TestUnknownSettingIsRefusedByTheAgent(t *testing.T) {
	for _, tr := range spawnDetectors(t) {
		if _, hasProgram := tr.Provider.(runnel.Programmable); hasProgram || !tr.Takes().Config {
			continue // those with a program need it to answer
		}
		s, err := runnel.Open(t.Context(), tr, runnel.Options{Config: runnel.Values{"banana": "1"}}, runnel.Config{})
		if runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: got %v", tr.Name(), err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// A setting of an agent's own that its last probe did not find is refused.
func TestUnknownSettingIsRefusedAfterAProbe(t *testing.T) {
	known := &runnel.Installation{}
	if err := json.Unmarshal([]byte(`{"config":[{"id":"speed","type":"boolean","value":"true"}]}`), known); err != nil {
		t.Fatal(err)
	}
	for _, tr := range spawnDetectors(t) {
		if !tr.Takes().Config {
			continue
		}
		for _, bad := range []runnel.Values{{"banana": "1"}, {"speed": "perhaps"}} {
			if _, err := runnel.CheckOptions(tr, runnel.Options{Config: bad}, known); runnel.CodeOf(err) != runnel.InvalidRequest {
				t.Errorf("%s: %v: got %v", tr.Name(), bad, err)
			}
		}
		if _, err := runnel.CheckOptions(tr, runnel.Options{Config: runnel.Values{"speed": "false"}}, known); err != nil {
			t.Errorf("%s: %v", tr.Name(), err)
		}
	}
}

func TestAPIKeyIsRefusedWhereTheAgentTakesNone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the trap is a shell script")
	}
	takers := []string{"claude-code", "codex", "claude-agent-acp", "gemini", "qwen"}
	for _, variable := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"} {
		t.Setenv(variable, "sk-test-value")
	}
	t.Setenv("HOME", t.TempDir())
	for _, tr := range spawnDetectors(t) {
		t.Run(tr.Name(), func(t *testing.T) {
			set := func(o *runnel.Options) { o.Auth = runnel.AuthAPIKey }
			if slices.Contains(takers, tr.Name()) {
				tr.starts(t, "auth", set)
			} else {
				tr.refuses(t, "auth", set, runnel.UnsupportedCapability)
			}
		})
	}
}
