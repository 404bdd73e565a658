//go:build unix

package conformance

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/translate"
	"github.com/runnel-dev/runnel/provider/all"
)

var (
	_ = register(57, keys)
	_ = register(58, keysOverHTTP)
	_ = register(59, modelErrors)
)

// keyVariables lists the variables that hold an agent's API key. The first one
// that is set wins.
var keyVariables = []struct {
	agent     string
	variables []string
}{
	{"claude-code", []string{"ANTHROPIC_API_KEY", "CHIRALITY_ANTHROPIC_API_KEY"}},
	{"codex", []string{"OPENAI_API_KEY"}},
	{"gemini", []string{"GEMINI_API_KEY"}},
	{"qwen", []string{"OPENAI_API_KEY"}},
	{"claude-agent-acp", []string{"ANTHROPIC_API_KEY", "CHIRALITY_ANTHROPIC_API_KEY"}},
}

func keys() table {
	tab := table{
		name: "keys", title: "Keys: before an agent starts", file: "keys_test.go",
		intro: "What a session is created with, and whether a variable of the server's environment has the key. Nothing is started for a row that fails.",
		head:  []string{"agent", "`auth`", "the variable", "outcome"},
	}
	add := func(agent, auth, variable, outcome string, env []string, want runnel.Code, message string) {
		tab.rows = append(tab.rows, row{cells: []string{agent, auth, variable, outcome}, check: func(t *testing.T) {
			for _, k := range keyVariables {
				for _, v := range k.variables {
					t.Setenv(v, "")
				}
			}
			t.Setenv("HOME", t.TempDir())
			if len(env) > 0 {
				t.Setenv(env[0], env[1])
			}
			opt := runnel.Options{}
			if auth != "not given" {
				opt.Auth = runnel.Auth(auth)
			}
			p := provider(t, agent)
			_, err := runnel.CheckOptions(p, opt, nil)
			if err == nil {
				err = runnel.CheckKey(p, opt)
			}
			if err == nil && want == "" {
				return
			}
			if runnel.CodeOf(err) != want || err == nil || !strings.Contains(runnel.Safe(err).Message, message) {
				t.Errorf("got %v", err)
			}
		}})
	}
	for _, k := range keyVariables {
		first := k.variables[0]
		add(k.agent, "api-key", first+" is missing", "503 MISSING_API_KEY, which names "+first, nil, runnel.MissingAPIKey, first+" is not set")
		add(k.agent, "api-key", first+" is blank", "503 MISSING_API_KEY, which names "+first, []string{first, "  "}, runnel.MissingAPIKey, first)
		add(k.agent, "api-key", first+" has white space within", "503 MISSING_API_KEY, which names "+first, []string{first, "a b"}, runnel.MissingAPIKey, first)
		for _, v := range k.variables {
			add(k.agent, "api-key", v+" has a key", "the agent starts with the key", []string{v, "sk-1"}, "", "")
		}
		add(k.agent, "agent-login", first+" is missing", "the agent starts with its own login", nil, "", "")
		add(k.agent, "not given", first+" is missing", "the agent decides", nil, "", "")
	}
	for _, agent := range []string{"opencode", "copilot", "codex-acp", "script"} {
		add(agent, "api-key", "none", "400 UNSUPPORTED_CAPABILITY: the agent accepts no key from runnel", nil, runnel.UnsupportedCapability, "accepts no API key from runnel")
	}
	return with(tab,
		row{cells: []string{"all", "api-key", "both variables have a key", "the first variable counts"}, test: "internal/agentconn.TestKeyDependsOnAuthMode"},
		row{cells: []string{"all", "agent-login", "the variable has a key", "the agent does not get it"}, test: "internal/agentconn.TestKeyDependsOnAuthMode"},
		row{cells: []string{"all", "of the configuration, and another of the session", "any", "that of the session counts"}, test: "internal/agentconn.TestSessionAuthOverridesConfiguredAuth"},
	)
}

// provider returns the provider with a name.
func provider(t *testing.T, name string) runnel.Provider {
	t.Helper()
	list := all.Providers()
	i := slices.IndexFunc(list, func(p runnel.Provider) bool { return p.Name() == name })
	if i < 0 {
		t.Fatalf("there is no provider %s", name)
	}
	return list[i]
}

func keysOverHTTP() table {
	tab := table{
		name: "keys over http", title: "Keys: over HTTP", file: "keys_test.go",
		intro: "Claude Code stands for every agent that takes a key. A program that fails when it is started stands in its place, so that a row which starts it shows.",
		head:  []string{"case", "outcome"},
	}
	var s server
	tab.setup = func(t *testing.T) {
		s.Home = folder(t)
		program := write(t, s.Home, "claude", "#!/bin/sh\ntouch "+s.Home+"/started\nexit 1\n")
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, s.Home, "open.key", "sk-1")
		if err := os.Chmod(s.Home+"/open.key", 0o644); err != nil {
			t.Fatal(err)
		}
		config := write(t, s.Home, "config.yaml", "agents:\n  claude-code: {path: "+program+"}\n  claude-agent-acp: {auth: api-key, apiKeyFile: "+s.Home+"/open.key}\n")
		s.Env = []string{"HOME=" + s.Home, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "RUNNEL_CONFIG=" + config}
		s.start(t)
	}
	missing := func(t *testing.T, a answer, provider string) problem {
		t.Helper()
		p := a.fails(t, http.StatusServiceUnavailable, "MISSING_API_KEY")
		equal(t, "details", p.Details, object{"provider": provider, "category": "API_KEY_MISSING"})
		if _, err := os.Stat(s.Home + "/started"); err == nil {
			t.Error("the agent was started")
		}
		return p
	}
	tab.rows = append(tab.rows,
		row{cells: []string{"a session with `auth: api-key`, and no key", "503 MISSING_API_KEY with `{provider, category}`; the message names the variable, and the agent is not started"}, check: func(t *testing.T) {
			p := missing(t, s.post(t, "/api/session/create", object{"cliType": "claude-code", "projectDir": s.project, "options": object{"auth": "api-key"}}), "claude-code")
			if !strings.Contains(p.Message, "ANTHROPIC_API_KEY is not set") {
				t.Error(p.Message)
			}
		}},
		row{cells: []string{"a file of the key that others may read", "503 MISSING_API_KEY, which says how to make the file private"}, check: func(t *testing.T) {
			p := missing(t, s.post(t, "/api/session/create", object{"cliType": "claude-agent-acp", "projectDir": s.project}), "claude-agent-acp")
			if !strings.Contains(p.Message, "can be read by others (mode 0644) and holds secrets; run: chmod go= ") {
				t.Error(p.Message)
			}
			if strings.Contains(p.Message, "sk-1") {
				t.Error("the message has the key")
			}
		}},
	)
	return tab
}

func modelErrors() table {
	tab := table{
		name: "model errors", title: "Keys: answers of a model API", file: "keys_test.go",
		intro: "The error with which a turn ends when the API of the model answers with a status, the same for all agents.",
		head:  []string{"status", "error of the turn"},
	}
	for _, m := range []struct {
		status int
		code   runnel.Code
	}{
		{400, runnel.AgentError}, {404, runnel.AgentError}, {408, runnel.Timeout}, {413, runnel.AgentError}, {429, runnel.RateLimited},
		{500, runnel.AgentError}, {502, runnel.AgentError}, {503, runnel.AgentError}, {504, runnel.Timeout}, {529, runnel.AgentError},
	} {
		tab.rows = append(tab.rows, row{cells: []string{strconv.Itoa(m.status), string(m.code)}, check: func(t *testing.T) {
			fault, ok := translate.ByStatus(m.status)
			if !ok || fault.Code != string(m.code) || fault.Message == "" {
				t.Errorf("got %+v", fault)
			}
		}})
	}
	return with(tab,
		row{cells: []string{"401 or 403, to Claude Code with a key", "INVALID_API_KEY"}, test: "provider/claude.TestFailuresOfTheAPIHaveTheirErrorCodes"},
		row{cells: []string{"none: Claude Code has neither a login nor a key", "AGENT_NOT_LOGGED_IN, with the command that logs in"}, test: "provider/claude.TestOpenWithoutCredentialsReportsTheLoginCommand"},
		row{cells: []string{"401, to Codex", "INVALID_API_KEY"}, test: "provider/codex.TestFaultCodesAndMessages"},
	)
}
