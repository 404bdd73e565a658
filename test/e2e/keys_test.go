//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A keyed is an agent that can work with an API key from the environment of the
// server.
type keyed struct {
	agent    string
	variable string   // environment variable of the key
	others   []string // further variables of the test's environment that hold credentials
	file     string   // path below the home of the configuration that requireLogin changes; "" for none
	rare     bool     // only with RUNNEL_LONG=1
}

// eachKeyed runs f for each agent that works with a key, as a parallel subtest.
func eachKeyed(t *testing.T, f func(t *testing.T, k keyed, agent realagents.Binary)) {
	for _, k := range []keyed{
		{agent: "claude-code", variable: "ANTHROPIC_API_KEY"},
		{agent: "codex", variable: "OPENAI_API_KEY", others: []string{"CODEX_FAKE_API_KEY"}, file: ".codex/config.toml"},
		{agent: "claude-agent-acp", variable: "ANTHROPIC_API_KEY", rare: true},
		{agent: "gemini", variable: "GEMINI_API_KEY"},
		{agent: "qwen", variable: "OPENAI_API_KEY", rare: true},
	} {
		t.Run(k.agent, func(t *testing.T) {
			if k.rare {
				needsLong(t, "Gemini CLI gets its key in the same way")
			}
			binaries := []realagents.Binary{realagents.Find(t, k.agent)}
			if k.agent == "claude-code" {
				binaries = realagents.UsualClaude(t)
			}
			for _, agent := range binaries {
				t.Run(agent.Version, func(t *testing.T) {
					t.Parallel()
					f(t, k, agent)
				})
			}
		})
	}
}

const testKey = "sk-e2e-Zq3vT8mWx1LkP0"

// server returns a server that has not been started. Its environment has the
// key with this value; "" removes the key.
func (k keyed) server(t *testing.T, agent realagents.Binary, value string) *server {
	t.Helper()
	s := prepare(t, agent)
	k.set(s, value)
	k.requireLogin(s)
	return s
}

// requireLogin changes the agent's own configuration so that the agent requires
// a login. It does nothing for an agent without file.
func (k keyed) requireLogin(s *server) {
	s.t.Helper()
	if k.file == "" {
		return
	}
	path := filepath.Join(s.home.Dir, k.file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	changed := strings.Replace(string(text), `env_key = "CODEX_FAKE_API_KEY"`, "requires_openai_auth = true", 1)
	if changed == string(text) {
		s.t.Fatalf("%s has no env_key", path)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (k keyed) set(s *server, value string) {
	s.env = slices.DeleteFunc(slices.Clone(s.env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == k.variable || slices.Contains(k.others, name)
	})
	if value != "" {
		s.env = append(s.env, k.variable+"="+value)
	}
}

// refused is the body of a response: an error, or the id of the new session.
type refused struct {
	Error struct {
		Type    string         `json:"type"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
	SessionID string `json:"sessionId"`
}

func (s *server) createWith(options map[string]any) (int, refused) {
	s.t.Helper()
	var out refused
	code := s.call("POST", "/api/session/create", map[string]any{"cliType": s.agent, "projectDir": s.home.Project, "options": options}, &out)
	return code, out
}

// TestAPIKeyIsUsedAndKept runs real agents with an API key. The model must
// receive the key, and neither the remaining files nor the server's log may
// contain it. After a restart without the key, requests must fail before an
// agent starts and before a stream opens.
func TestAPIKeyIsUsedAndKept(t *testing.T) {
	eachKeyed(t, func(t *testing.T, k keyed, agent realagents.Binary) {
		s := k.server(t, agent, testKey)
		binary, err := build()
		if err != nil {
			t.Fatal(err)
		}
		s.start(binary)
		t.Cleanup(func() { s.stop() })
		code, made := s.createWith(map[string]any{"auth": "api-key"})
		if code != http.StatusCreated {
			t.Fatalf("create: %d %+v", code, made.Error)
		}
		d := &sse{s, made.SessionID, "0", make(map[string]string)}
		if out := d.turn(play(step(fakemodel.Block{Type: "text", Text: "Hello."})), ignore); out.Status != "completed" {
			t.Fatalf("turn: %+v", out)
		}
		if !slices.ContainsFunc(s.model.Requests(), func(r fakemodel.Request) bool {
			return strings.Contains(strings.Join(slices.Concat(r.Header.Values("Authorization"), r.Header.Values("X-Api-Key"), r.Header.Values("X-Goog-Api-Key")), " "), testKey)
		}) {
			t.Error("the model did not get the key")
		}

		if snapshots, err := os.ReadDir(filepath.Join(s.home.Dir, ".codex", "shell_snapshots")); err == nil && len(snapshots) > 0 {
			t.Errorf("%d files of the shell's environment, which has the key", len(snapshots))
		}

		s.stop()
		k.set(s, "")
		s.start(binary)
		missing := func(what string, code int, r refused) {
			t.Helper()
			if code != http.StatusServiceUnavailable || r.Error.Type != "MISSING_API_KEY" || !strings.Contains(r.Error.Message, k.variable) ||
				r.Error.Details["provider"] != s.agent || r.Error.Details["category"] != "API_KEY_MISSING" {
				t.Errorf("%s without a key: %d %+v", what, code, r.Error)
			}
		}
		code, out := s.createWith(map[string]any{"auth": "api-key"})
		missing("create", code, out)
		var body refused
		code = s.call("POST", "/api/session/"+made.SessionID+"/send", map[string]any{"content": "hi"}, &body)
		missing("send", code, body)
		body = refused{}
		code = s.call("POST", "/api/harness/turn", map[string]any{"sessionId": made.SessionID, "message": "hi"}, &body)
		missing("turn", code, body)

		holds(t, []byte(testKey), s.data, s.home.Dir, s.home.Project, s.home.Tmp)
		if strings.Contains(s.said.String(), testKey) {
			t.Error("the server's log has the key")
		}
	})
}

// holds fails the test for each file below dirs that contains what.
func holds(t *testing.T, what []byte, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // removed meanwhile, or not a regular file
			}
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, what) {
				t.Errorf("%s holds the key", path)
			}
			return nil
		})
	}
}

// TestAgentLoginGetsNoKey creates a session that asks for the agent's own login
// while the server has a key and the agent is not logged in. The agent must not
// receive the key, and creating the session must fail.
func TestAgentLoginGetsNoKey(t *testing.T) {
	eachKeyed(t, func(t *testing.T, k keyed, agent realagents.Binary) {
		switch k.agent {
		case "gemini", "qwen", "claude-agent-acp":
			t.Skip("the agent learns with its first prompt that it has no credential")
		}
		s := k.server(t, agent, testKey)
		binary, err := build()
		if err != nil {
			t.Fatal(err)
		}
		s.start(binary)
		t.Cleanup(s.stop)
		code, out := s.createWith(map[string]any{"auth": "agent-login"})
		if code != http.StatusServiceUnavailable || out.Error.Type != "AGENT_NOT_LOGGED_IN" || out.Error.Details["category"] != "LOGIN_MISSING" {
			t.Errorf("create: %d %+v", code, out.Error)
		}
		for _, r := range s.model.Requests() { // Claude Code 2.1.197 also checks whether the server exists
			if r.Method == http.MethodPost {
				t.Errorf("the model was asked: %s", r.Path)
			}
		}
	})
}

// TestLoginThatIsGoneIsAnErrorBeforeTheTurn removes the credential of a real
// agent that is not running. A prompt that starts the agent must be rejected
// before its turn begins.
func TestLoginThatIsGoneIsAnErrorBeforeTheTurn(t *testing.T) {
	eachKeyed(t, func(t *testing.T, k keyed, agent realagents.Binary) {
		switch k.agent {
		case "gemini", "qwen", "claude-agent-acp":
			t.Skip("the agent learns with its first prompt that it has no credential")
		}
		s := serve(t, agent)
		session := s.create()
		s.stop()
		k.set(s, "")
		k.requireLogin(s)
		s.launch()
		began := time.Now()
		res := s.do(t.Context(), "POST", "/api/harness/turn", map[string]any{"sessionId": session, "message": "hi"})
		waited := time.Since(began)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK && waited > 10*time.Second { // the longest time that a prompt waits for the login check
			if !bytes.Contains(body, []byte(`"errorType":"AGENT_NOT_LOGGED_IN"`)) {
				t.Errorf("the turn of an agent that started slowly: %s", body)
			}
			return
		}
		var out refused
		if err := json.Unmarshal(body, &out); err != nil || res.StatusCode != http.StatusServiceUnavailable || out.Error.Type != "AGENT_NOT_LOGGED_IN" ||
			out.Error.Details["category"] != "LOGIN_MISSING" || !strings.Contains(out.Error.Message, "login") {
			t.Errorf("after %v: %d %s", waited, res.StatusCode, body)
		}
		if log := (&sse{s: s, session: session}).log(); strings.Contains(log, "response_start") {
			t.Errorf("a turn began\n%s", log)
		}
	})
}
