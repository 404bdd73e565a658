//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// An mcpServer is an MCP server as an agent has stored it.
type mcpServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// An mcpWorld is a server with one real agent.
type mcpWorld struct {
	t     *testing.T
	prog  testprogram.Server
	agent realagents.Binary
	token string
}

func newMCPWorld(t *testing.T, agent realagents.Binary, flags ...string) *mcpWorld {
	t.Helper()
	home := realagents.NewHome(t, "http://127.0.0.1:1") // no model is needed
	bin := t.TempDir()
	if err := os.Symlink(agent.Path, filepath.Join(bin, strings.TrimSuffix(agent.Name, "-code"))); err != nil {
		t.Fatal(err)
	}
	w := &mcpWorld{t: t, agent: agent, prog: testprogram.Server{
		Home: home.Dir, Args: append(flags, "--log-level", "debug"), Env: append(home.EnvironFor(agent.Name), "PATH="+bin+":"+os.Getenv("PATH")),
	}}
	w.prog.Start(t)
	w.token = w.prog.Token(t, "read,admin")
	return w
}

// call sends a request about the agent's MCP servers.
func (w *mcpWorld) call(method, path string, in any) (code int, body string) {
	w.t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.prog.API+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	if in == nil {
		req.Body, req.ContentLength = nil, 0
	}
	req.Header = http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// checkCapabilities checks what the API and the command line say about the
// agent's MCP servers.
func (w *mcpWorld) checkCapabilities(writes bool) {
	w.t.Helper()
	code, body := w.call("GET", "/api/agents", nil)
	var list struct{ Agents []detect.Agent }
	if err := json.Unmarshal([]byte(body), &list); code != 200 || err != nil {
		w.t.Fatalf("agents: %d %v %s", code, err, body)
	}
	cmd := exec.CommandContext(w.t.Context(), testprogram.Path(w.t), "agents", "--json", w.agent.Name)
	cmd.Env = append(w.prog.Env, "HOME="+w.prog.Home, fmt.Sprintf("RUNNEL_MCP_WRITES=%v", writes))
	out, err := cmd.Output()
	var printed []detect.Agent
	if err == nil {
		err = json.Unmarshal(out, &printed)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for from, agents := range map[string][]detect.Agent{"the API": list.Agents, "the command": printed} {
		for _, a := range agents {
			known := slices.Contains([]string{"claude-code", "codex", "gemini"}, a.CLIType)
			for _, c := range runnel.MCPCapabilities() {
				want := known && (writes || !slices.Contains(runnel.MCPWriteCapabilities(), c))
				if has := slices.Contains(a.Capabilities, c); has != want {
					w.t.Errorf("%s says that %s has %s: %v", from, a.CLIType, c, has)
				}
			}
		}
	}
}

// stored returns the MCP server with this name, as the agent has stored it.
func (w *mcpWorld) stored(name string) (s mcpServer) {
	w.t.Helper()
	if w.agent.Name == "codex" {
		cmd := exec.Command(w.agent.Path, "mcp", "get", name, "--json")
		cmd.Env = w.prog.Env
		out, err := cmd.Output()
		if err != nil {
			w.t.Fatalf("codex mcp get: %v", err)
		}
		var got struct{ Transport mcpServer }
		if err := json.Unmarshal(out, &got); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
		return got.Transport
	}
	for _, file := range []string{".claude.json", ".claude/.claude.json", ".gemini/settings.json"} {
		var got struct {
			MCPServers map[string]mcpServer `json:"mcpServers"`
		}
		text, err := os.ReadFile(filepath.Join(w.prog.Home, file))
		if err == nil && json.Unmarshal(text, &got) == nil && got.MCPServers[name].Command != "" {
			return got.MCPServers[name]
		}
	}
	w.t.Errorf("the agent has not stored %s", name)
	return s
}

// TestMCPServersAreAddedAndRemoved adds an MCP server to real agents, through
// their own command lines, and removes it. Its arguments look like options,
// numbers and commands of a shell.
func TestMCPServersAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude-code", "codex", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var agent realagents.Binary
			if name == "claude-code" {
				agent = realagents.Claude(t)[0]
			} else {
				agent = realagents.Find(t, name)
			}
			w := newMCPWorld(t, agent, "--mcp-writes")
			const secret = "s3cr3t-value-4711"
			path := "/api/agents/" + name + "/mcp"
			want := mcpServer{
				Command: "/bin/echo", Args: []string{"--scope=project", "-e", "X=y", "-x", "a b", "$(touch pwned); touch pwned", "007", "--", "é'\"\\"},
				Env: map[string]string{"TICKETS_TOKEN": secret, "OTHER": "a b"},
			}
			if name != "gemini" {
				want.Env["ALSO"] = "a=b"
			}
			in := map[string]any{"name": "tickets", "command": want.Command, "args": want.Args, "env": want.Env}
			said := ""
			check := func(method, path string, in any, status int, contains string) {
				t.Helper()
				code, body := w.call(method, path, in)
				if said += body; code != status || !strings.Contains(body, contains) {
					t.Fatalf("%s %s: %d %s; want %d %s", method, path, code, body, status, contains)
				}
			}
			if name == "codex" || os.Getenv("RUNNEL_LONG") != "" { // it starts the agent twice
				w.checkCapabilities(true)
			}
			check("POST", path, in, 201, `"name":"tickets"`)
			if got := w.stored("tickets"); got.Command != want.Command || !slices.Equal(got.Args, want.Args) || !maps.Equal(got.Env, want.Env) {
				t.Errorf("the agent has stored %+v, want %+v", got, want)
			}
			check("GET", path+"/tickets", nil, 200, `"arguments":9`)
			check("POST", path, in, 400, "already")
			if name == "gemini" && os.Getenv("RUNNEL_LONG") == "" { // starts slowly; the commands send the same requests for each agent
				check("DELETE", path+"/tickets", nil, 200, "")
			} else {
				w.prog.Command(t, "mcp", "remove", "tickets", "--agent", name)
				check("GET", path, nil, 200, `"servers":[]`)
				add := exec.Command(testprogram.Path(t), "mcp", "add", "--data", w.prog.Data, "--agent", name, "docs", "--env", "TOKEN="+secret, "--", "/bin/echo", "-x")
				add.Env = w.prog.Env
				if out, err := add.CombinedOutput(); err != nil || !strings.Contains(string(out), "/bin/echo (1 arguments)") {
					t.Errorf("mcp add: %v %s", err, out)
				}
				check("DELETE", path+"/docs", nil, 200, "")
			}
			check("DELETE", path+"/tickets", nil, 404, "no such MCP server")
			check("GET", "/api/audit", nil, 200, `"what":"`+name+`: tickets: /bin/echo"`)
			check("GET", "/api/audit", nil, 200, `"kind":"mcp_server_removed"`)
			w.prog.Stop()
			if said += w.prog.Stderr(); strings.Contains(said, secret) {
				t.Error("an answer or the log contains the value of a variable")
			}
			if found, _ := filepath.Glob(filepath.Join(w.prog.Home, "*", "pwned")); len(found) > 0 {
				t.Errorf("a shell ran: %v", found)
			}
		})
	}
}

// TestMCPServersAreNotChangedByDefault asks a server without the setting, and
// names that look like options.
func TestMCPServersAreNotChangedByDefault(t *testing.T) {
	t.Parallel()
	agent := realagents.Codex(t)
	w := newMCPWorld(t, agent)
	w.checkCapabilities(false)
	const path = "/api/agents/codex/mcp"
	in := map[string]any{"name": "tickets", "command": "/bin/echo"}
	for _, request := range []struct {
		method, path string
		in           any
	}{{"POST", path, in}, {"DELETE", path + "/tickets", nil}} {
		if code, body := w.call(request.method, request.path, request.in); code != 403 || !strings.Contains(body, "set mcp-writes: true") {
			t.Errorf("%s: %d %s", request.method, code, body)
		}
	}
	if code, body := w.call("GET", path, nil); code != 200 || !strings.Contains(body, `{"servers":[],"writes":false}`) {
		t.Errorf("list: %d %s", code, body)
	}

	w = newMCPWorld(t, agent, "--mcp-writes")
	for _, wrong := range []map[string]any{
		{"name": "-tickets", "command": "/bin/echo"}, {"name": "a.b", "command": "/bin/echo"}, {"name": "", "command": "/bin/echo"},
		{"name": "tickets", "command": ""}, {"name": "tickets", "command": "--version"}, {"name": "tickets", "command": "https://example.com/mcp"},
		{"name": "tickets", "command": "/bin/echo", "env": map[string]string{"A B": "x"}}, {"name": "tickets", "command": "/bin/echo", "args": []string{"a\x00b"}},
		{"name": "tickets", "command": "/bin/echo", "url": "x"},
	} {
		if code, body := w.call("POST", path, wrong); code != 400 {
			t.Errorf("%v: %d %s", wrong, code, body)
		}
	}
	if code, body := w.call("POST", "/api/agents/opencode/mcp", in); code != 400 || !strings.Contains(body, "UNSUPPORTED_CAPABILITY") {
		t.Errorf("an agent that is not supported: %d %s", code, body)
	}
	w.token = w.prog.Token(t, "read,send,approve")
	if code, body := w.call("POST", path, in); code != 403 || !strings.Contains(body, "admin") {
		t.Errorf("without the scope admin: %d %s", code, body)
	}
}
