package agentconn_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

func TestProgramIsFoundByPrecedence(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := agentconn.Agent{Name: "Agent", Install: "npm install agent"}
	configured := agentconn.Program{Command: []string{exe, "-x"}}
	absent := filepath.Join(t.TempDir(), "absent")
	for _, c := range []struct {
		name    string
		program agentconn.Program
		opt     runnel.Options
		usual   string
		args    []string
		problem string
	}{
		{name: "usual", usual: exe},
		{name: "configured", program: configured, usual: absent, args: []string{"-x"}},
		{name: "option", program: configured, opt: runnel.Options{Path: exe}, usual: absent},
		{name: "usual program is missing", usual: absent, problem: "npm install agent"},
		{name: "configured program is missing", program: agentconn.Program{Command: []string{absent}}, usual: exe, problem: "configuration"},
	} {
		path, args, err := c.program.Find(c.opt, c.usual, agent)
		switch {
		case c.problem != "":
			if runnel.CodeOf(err) != runnel.AgentNotInstalled || !strings.Contains(runnel.Safe(err).Message, c.problem) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || path != exe || !slices.Equal(args, c.args):
			t.Errorf("%s: %s %v %v", c.name, path, args, err)
		}
	}
}

func TestOptionsOverrideConfiguredEnvironment(t *testing.T) {
	p := agentconn.Program{Env: []string{"A=1"}}
	if got := p.Configured(runnel.Options{Env: []string{"A=2"}}).Env; !slices.Equal(got, []string{"A=1", "A=2"}) {
		t.Errorf("environment %v", got)
	}
}

func TestMCPServersAreAnObject(t *testing.T) {
	for given, ok := range map[string]bool{`{"a":{}}`: true, `{}`: true, `null`: false, `[]`: false, `{"a":1}`: false, ``: false} {
		_, err := agentconn.MCPServers[map[string]json.RawMessage](json.RawMessage(given))
		if (err == nil) != ok || err != nil && runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%q: %v", given, err)
		}
	}
}

func TestTokensAreBounded(t *testing.T) {
	suffix := regexp.MustCompile(`^[a-z]+(\[1m\])?$`)
	for _, c := range []struct {
		value   string
		allowed *regexp.Regexp
		ok      bool
	}{
		{"gpt-5.5", agentconn.Token(), true}, {strings.Repeat("m", 200), agentconn.Token(), true},
		{"", agentconn.Token(), false}, {"-m", agentconn.Token(), false}, {"a b", agentconn.Token(), false},
		{strings.Repeat("m", 201), agentconn.Token(), false}, {strings.Repeat("m", 201), suffix, false},
		{"opus[1m]", agentconn.Token(), false}, {"opus[1m]", suffix, true},
	} {
		err := agentconn.CheckToken("model", c.value, c.allowed)
		if (err == nil) != c.ok || err != nil && runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%.20q: %v", c.value, err)
		}
	}
}
