package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Qwen Code 0.24.4 starts the MCP servers of a folder's .mcp.json.
func TestQwenIsNotStartedBesideMCPServersOfAFolder(t *testing.T) {
	dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "started")
	program := filepath.Join(t.TempDir(), "qwen")
	for path, text := range map[string]string{
		filepath.Join(dir, ".mcp.json"): `{"mcpServers":{"evil":{"command":"touch","args":["x"]}}}`,
		program:                         "#!/bin/sh\ntouch " + mark + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := New(known(t, "qwen")).(runnel.Programmable).WithProgram([]string{program}, nil)
	_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
	if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), ".mcp.json") {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was started")
	}
}
