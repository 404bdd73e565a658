//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// A urlCase is what one agent accepts of MCP servers with a URL.
type urlCase struct {
	agent   string
	sse     bool // takes servers over SSE
	private bool // reads headers from a pipe, not from its arguments
}

var urlCases = []urlCase{
	{agent: "claude-code", sse: true, private: true},
	{agent: "codex", private: true},
	{agent: "gemini", sse: true},
}

// A mcpSite is an MCP server at a URL that only notes the headers of requests.
type mcpSite struct {
	*httptest.Server
	got chan http.Header // of each request
}

func newMCPSite(t *testing.T) *mcpSite {
	s := &mcpSite{got: make(chan http.Header, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.got <- r.Header.Clone():
		default: // nobody needs more of them
		}
		http.Error(w, "this is no MCP server", http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	return s
}

// noteArguments replaces the agent of w by a program that writes its arguments
// to the returned file and then becomes the agent.
func noteArguments(t *testing.T, agent realagents.Binary) (realagents.Binary, string) {
	t.Helper()
	dir := t.TempDir()
	log, path := filepath.Join(dir, "arguments"), filepath.Join(dir, "agent")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, agent.Path)
	if err := testexec.Write(path, script); err != nil {
		t.Fatal(err)
	}
	agent.Path = path
	return agent, log
}

// TestMCPServersAtURLsAreAdded adds MCP servers with a URL to real agents. Their
// secrets reach the server at the URL, and appear in no answer, log or audit
// entry, and in no argument of a process if the agent has another way.
func TestMCPServersAtURLsAreAdded(t *testing.T) {
	t.Parallel()
	for _, c := range urlCases {
		t.Run(c.agent, func(t *testing.T) {
			t.Parallel()
			agent, arguments := noteArguments(t, realagents.Find(t, c.agent))
			w := newMCPWorld(t, agent, "--mcp-writes")
			site := newMCPSite(t)
			const secret, inURL = "s3cr3t-value-4711", "k3y-in-url-0815"
			path := "/api/agents/" + c.agent + "/mcp"
			said := ""
			// Gemini CLI starts slowly: without RUNNEL_LONG=1 it adds one server and
			// reaches it.
			whole := c.agent != "gemini" || os.Getenv("RUNNEL_LONG") != ""
			check := func(method, path string, in any, status int, contains string) {
				t.Helper()
				code, body := w.call(method, path, in)
				if said += body; code != status || !strings.Contains(body, contains) {
					t.Fatalf("%s %s: %d %s; want %d %s", method, path, code, body, status, contains)
				}
			}
			in := map[string]any{"name": "docs", "url": site.URL + "/mcp?key=" + inURL, "headers": map[string]string{"Authorization": "Bearer " + secret, "X-Team": `red: "1"`}}
			check("POST", path, in, 201, `"transport":"http","enabled":true,"arguments":0,"url":"`+site.URL+`","env":[],"headers":["Authorization","X-Team"]`)
			check("GET", path+"/docs", nil, 200, `"url":"`+site.URL+`"`)
			check("POST", path, in, 400, "already")
			if n := len(site.got); n != 0 {
				t.Errorf("adding a server sent it %d requests", n)
			}
			expected := map[string]string{"Bearer " + secret: `red: "1"`}
			if whole {
				token := map[string]any{"name": "tokened", "url": site.URL + "/token", "bearerTokenEnv": "DOCS_TOKEN"}
				check("POST", path, token, 201, `"headers":["Authorization"]`)
				expected["Bearer from-a-variable"] = ""
			}
			sse := map[string]any{"name": "events", "url": site.URL + "/sse", "transport": "sse", "headers": map[string]string{"X-Key": secret}}
			switch {
			case !c.sse:
				check("POST", path, sse, 400, "not over SSE")
			case whole:
				check("POST", path, sse, 201, `"transport":"sse"`)
			}
			args, err := os.ReadFile(arguments)
			if err != nil {
				t.Fatal(err)
			}
			if c.private && (strings.Contains(string(args), secret) || strings.Contains(string(args), inURL)) {
				t.Errorf("the arguments of a process contain a secret:\n%s", args)
			}
			w.reaches(site, expected)
			for _, wrong := range []map[string]any{
				{"name": "a", "url": "https://user:" + secret + "@example.com/"}, {"name": "a", "url": "file:///" + secret}, {"name": "a", "url": "https://example.com/\n" + secret},
				{"name": "a", "url": "https://example.com", "headers": map[string]string{"X": secret + "\nY: 1"}}, {"name": "a", "url": "https://example.com", "transport": "ws"},
			} {
				check("POST", path, wrong, 400, "INVALID_REQUEST")
			}
			if whole {
				w.addsByCommand(c, site.URL, secret)
				check("DELETE", path+"/docs", nil, 200, "")
				check("DELETE", path+"/docs", nil, 404, "no such MCP server")
			}
			check("GET", "/api/audit", nil, 200, `"what":"`+c.agent+`: docs: `+site.URL+`"`)
			w.prog.Stop()
			if said += w.prog.Stderr(); strings.Contains(said, secret) || strings.Contains(said, inURL) {
				t.Error("an answer or the log contains a secret")
			}
		})
	}
}

// reaches lets the agent itself connect to its MCP servers, and waits until the
// site has received requests with each of the values of Authorization and the
// header X-Team that belongs to it.
func (w *mcpWorld) reaches(site *mcpSite, want map[string]string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	args := []string{"mcp", "list"}
	if w.agent.Name == "codex" { // its list connects only to servers without a token
		args = []string{"exec", "--skip-git-repo-check", "hello"}
	}
	cmd := exec.CommandContext(ctx, w.agent.Path, args...)
	cmd.Env = append(w.prog.Env, "HOME="+w.prog.Home, "DOCS_TOKEN=from-a-variable", "GEMINI_CLI_TRUST_WORKSPACE=true")
	cmd.Dir = w.prog.Home
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	var out []byte
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, _ = cmd.CombinedOutput() // the status depends on the answers of the site
	}()
	missing, over := maps.Clone(want), false
	for len(missing) > 0 && !over {
		select {
		case h := <-site.got:
			if team, ok := missing[h.Get("Authorization")]; ok && h.Get("X-Team") == team {
				delete(missing, h.Get("Authorization"))
			}
		case <-ended:
			over = len(site.got) == 0
		}
	}
	cancel()
	<-ended
	if len(missing) > 0 {
		w.t.Errorf("no request had %v; %v:\n%s", missing, args, out)
	}
}

// addsByCommand adds an MCP server by the command line, with a header from
// standard input.
func (w *mcpWorld) addsByCommand(c urlCase, url, secret string) {
	w.t.Helper()
	run := func(input string, args ...string) (string, error) {
		cmd := exec.Command(testprogram.Path(w.t), append([]string{"mcp", "add", "--data", w.prog.Data, "--agent", c.agent}, args...)...)
		cmd.Env, cmd.Stdin = w.prog.Env, strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("Authorization: Bearer "+secret+"\n\nX-Team: blue\n", "byline", "--url", url+"/mcp", "--headers-from", "-")
	if err != nil || !strings.Contains(out, url) || strings.Contains(out, secret) {
		w.t.Errorf("mcp add: %v %s", err, out)
	}
	list := exec.Command(testprogram.Path(w.t), "mcp", "get", "byline", "--agent", c.agent, "--json")
	list.Env = w.prog.Env
	text, err := list.Output()
	var got struct {
		Transport string
		Headers   []string
	}
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Transport != "http" || len(got.Headers) != 2 {
		w.t.Errorf("mcp get: %v %s", err, text)
	}
	for _, wrong := range [][]string{
		{"a", "--url", "https://u:" + secret + "@example.com"}, {"a", "--url", "https://example.com", "--header", secret}, {"a", "--url", "https://example.com", "--", "/bin/true"},
		{"a", "--url", "https://example.com", "--transport", "ws"}, {"a", "--header", "X: " + secret, "--", "/bin/true"},
	} {
		if out, err := run("", wrong...); err == nil || strings.Contains(out, secret) {
			w.t.Errorf("%q: %v %s", wrong, err, out)
		}
	}
}

// TestMCPVariablesInHeadersAreRefused gives agents headers that they would
// change.
func TestMCPVariablesInHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for agent, value := range map[string]string{"claude-code": "a${HOME}", "gemini": "a$HOME"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			w := newMCPWorld(t, realagents.Find(t, agent), "--mcp-writes")
			in := map[string]any{"name": "docs", "url": "https://example.com/mcp", "headers": map[string]string{"X-Key": value}}
			if code, body := w.call("POST", "/api/agents/"+agent+"/mcp", in); code != 400 || !strings.Contains(body, "headers.X-Key: contains $ before a name") {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

// TestMCPServerAtURLNeedsNewClaudeCode adds a server to a Claude Code that cannot
// read it from its standard input. The secret appears in no argument.
func TestMCPServerAtURLNeedsNewClaudeCode(t *testing.T) {
	t.Parallel()
	all := realagents.Claude(t)
	if len(all) < 2 {
		t.Skip("only the newest Claude Code is tested")
	}
	agent, arguments := noteArguments(t, all[1])
	w := newMCPWorld(t, agent, "--mcp-writes")
	in := map[string]any{"name": "docs", "url": "https://example.com/mcp", "headers": map[string]string{"X-Key": "s3cr3t"}}
	if code, body := w.call("POST", "/api/agents/claude-code/mcp", in); code < 400 || !strings.Contains(body, "update it") || strings.Contains(body, "s3cr3t") {
		t.Errorf("%d %s", code, body)
	}
	if args, err := os.ReadFile(arguments); err != nil || strings.Contains(string(args), "s3cr3t") {
		t.Errorf("arguments: %v\n%s", err, args)
	}
}
