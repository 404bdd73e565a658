package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
)

// Claude Code 2.1.330 wrote these servers: claude mcp add -s user
const writtenMCP = `{"migrationVersion": 15, "mcpServers": {
  "web": {"type": "http", "url": "https://example.com/mcp?key=secret", "headers": {"Authorization": "Bearer secret"}},
  "hello": {"type": "stdio", "command": "/bin/echo", "args": ["hi", "secret"], "env": {"TOK": "secret"}}
}}`

func TestListMCPReadsTheUsersServersWithoutSecrets(t *testing.T) {
	want := []runnel.MCPServer{
		{Name: "hello", Transport: "stdio", Enabled: true, Command: "/bin/echo", Arguments: 2, Env: []string{"TOK"}, Headers: []string{}},
		{Name: "web", Transport: "http", Enabled: true, URL: "https://example.com", Env: []string{}, Headers: []string{"Authorization"}},
	}
	dir := t.TempDir()
	for _, env := range [][]string{{"CLAUDE_CONFIG_DIR=" + dir}, {"CLAUDE_CONFIG_DIR=", "HOME=" + dir}} {
		p := New().WithProgram(nil, env)
		file := filepath.Join(dir, ".claude.json")
		if got, err := runnel.ListMCP(t.Context(), p); err != nil || len(got) != 0 {
			t.Errorf("%q: without a file: %v, %v", env, got, err)
		}
		write := func(content string) {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(writtenMCP)
		got, err := runnel.ListMCP(t.Context(), p)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%q: %v\n%s", env, err, d)
		}
		if got, err := runnel.GetMCP(t.Context(), p, "web"); err != nil || !cmp.Equal(got, want[1]) {
			t.Errorf("%q: get: %+v, %v", env, got, err)
		}
		if _, err := runnel.GetMCP(t.Context(), p, "nope"); runnel.Safe(err).Code != runnel.InvalidRequest {
			t.Errorf("%q: an unknown server: %v", env, err)
		}
		write(`{"mcpServers": "secret`)
		if _, err := runnel.ListMCP(t.Context(), p); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: an invalid file: %v", env, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
