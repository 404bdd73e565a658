package all

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

func TestConfigured(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	known := Providers()
	if ps, err := Configured(nil); err != nil || !slices.Equal(names(ps), names(known)) {
		t.Errorf("nothing configured: %q, %v", names(ps), err)
	}
	ps, err := Configured(map[string]Agent{
		"zeta":            {Protocol: "acp", Command: []string{"~/bin/zeta", "--acp", ""}, Env: map[string]string{"B": "2", "A": ""}},
		"alpha":           {Protocol: "acp", Path: "alpha", DisplayName: "The First"},
		known[0].Name():   {Path: "/opt/agent", Env: map[string]string{"K": "V"}},
		known[1].Name():   {Env: map[string]string{"K": "V"}},
		known[2].Name():   {Command: []string{"/usr/bin/env", "agent"}},
		"a123456789-abcd": {Protocol: "acp", Command: []string{"/a b/c"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	last := len(known) - 1
	want := slices.Insert(names(known), last, "a123456789-abcd", "alpha", "zeta")
	if !slices.Equal(names(ps), want) {
		t.Errorf("got %q, want %q", names(ps), want)
	}
	if ps[0] == known[0] {
		t.Error("the known one is as it was")
	}
	if d := ps[last+1].(interface{ DisplayName() string }).DisplayName(); d != "The First" {
		t.Errorf("is shown as %q", d)
	}
	for i, p := range ps[:last] { // they can do what they could
		if !slices.Equal(runnel.Capabilities(p), runnel.Capabilities(known[i])) {
			t.Errorf("%s can do %v", p.Name(), runnel.Capabilities(p))
		}
	}
	in := ps[last+2].(runnel.Prober).Probe(t.Context())
	if in.Installed || in.Problem == "" {
		t.Errorf("what is not there: %+v", in)
	}
}

func TestConfiguredRefuses(t *testing.T) {
	known := Providers()[0].Name()
	many := make(map[string]Agent)
	for i := range maxAgents + 1 {
		many["a"+strings.Repeat("x", i%30)+string(rune('a'+i%26))+strings.Repeat("y", i/30)] = Agent{Protocol: "acp", Command: []string{"x"}}
	}
	good := []string{"agent"}
	for _, tt := range []struct {
		name  string
		agent Agent
		want  string
	}{
		{"mine", Agent{}, "agents.mine: no known agent has this name"},
		{"mine", Agent{Protocol: "acp"}, "agents.mine.command: missing"},
		{"mine", Agent{Protocol: "mcp", Command: good}, "agents.mine.protocol: unknown value; want acp"},
		{"mine", Agent{Protocol: "acp", Command: []string{""}}, "agents.mine.command: the first word is empty"},
		{"mine", Agent{Protocol: "acp", Command: good, Path: "x"}, "agents.mine: path and command exclude each other"},
		{"mine", Agent{Protocol: "acp", Command: []string{"./x"}}, "agents.mine.command: \"./x\" is relative"},
		{"mine", Agent{Protocol: "acp", Command: []string{"~user/x"}}, "is relative"},
		{"mine", Agent{Protocol: "acp", Path: filepath.Join("..", "x")}, "agents.mine.path: \"../x\" is relative"},
		{"mine", Agent{Protocol: "acp", Command: []string{"x", "a\x00b"}}, "agents.mine.command[1]: too long, or contains a NUL"},
		{"mine", Agent{Protocol: "acp", Command: []string{"x", strings.Repeat("x", maxWord+1)}}, "agents.mine.command[1]: too long"},
		{"mine", Agent{Protocol: "acp", Command: slices.Repeat(good, maxWords+1)}, "agents.mine.command: more than"},
		{"mine", Agent{Protocol: "acp", Command: good, Env: map[string]string{"": "x"}}, "agents.mine.env.: not a valid variable name"},
		{"mine", Agent{Protocol: "acp", Command: good, Env: map[string]string{"A B": "x"}}, "agents.mine.env.A B: not a valid variable name"},
		{"mine", Agent{Protocol: "acp", Command: good, Env: map[string]string{"A": "\x00"}}, "agents.mine.env.A: too long, or contains"},
		{"mine", Agent{Protocol: "acp", Command: good, DisplayName: "a\nb"}, "agents.mine.displayName: "},
		{"Mine", Agent{Protocol: "acp", Command: good}, "agents.Mine: not a valid name"},
		{"-mine", Agent{Protocol: "acp", Command: good}, "not a valid name"},
		{"2mine", Agent{Protocol: "acp", Command: good}, "not a valid name"},
		{"gemini-cli", Agent{Protocol: "acp", Command: good}, "agents.gemini-cli: the kind gemini_cli of this agent is reserved for gemini"},
		{"mine-", Agent{Protocol: "acp", Command: good}, "not a valid name"},
		{"a:b", Agent{Protocol: "acp", Command: good}, "not a valid name"},
		{strings.Repeat("a", 41), Agent{Protocol: "acp", Command: good}, "not a valid name"},
		{known, Agent{Protocol: "acp", Command: good}, "agents." + known + ": this name belongs to a known agent"},
		{known, Agent{}, "agents." + known + ": has no setting"},
		{known, Agent{DisplayName: "x", Path: "x"}, "agents." + known + ".displayName: cannot change the name of a known agent"},
		{"script", Agent{Path: "x"}, "agents.script: runs no program"},
	} {
		ps, err := Configured(map[string]Agent{tt.name: tt.agent})
		if err == nil || !strings.Contains(err.Error(), tt.want) || ps != nil {
			t.Errorf("%s %+v: got %v, want %s", tt.name, tt.agent, err, tt.want)
		}
	}
	if _, err := Configured(many); err == nil || len(many) <= maxAgents {
		t.Errorf("%d agents: %v", len(many), err)
	}
}

func TestRegistryHasTheReservedKinds(t *testing.T) {
	r, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kinds()) != len(Providers()) {
		t.Errorf("kinds %q", r.Kinds())
	}
	for _, kind := range []string{"codex", "claude_code", "gemini_cli", "opencode", "copilot"} {
		p, err := r.Provider(kind)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := r.Register(p, runnel.Defaults{}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s twice: %v", kind, err)
		}
	}
}
