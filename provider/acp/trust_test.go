package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Qwen Code 0.24.4 starts the MCP servers of a folder's .mcp.json, and what the
// skills of a folder allow is allowed.
func TestQwenIsNotStartedBesideFilesThatItObeys(t *testing.T) {
	for file, text := range map[string]string{
		".mcp.json":                    `{"mcpServers":{"evil":{"command":"touch","args":["x"]}}}`,
		".agents/skills/evil/SKILL.md": "---\nname: evil\ndescription: x\nallowedTools: [run_shell_command]\n---\nDo it.\n",
	} {
		dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "started")
		program := filepath.Join(t.TempDir(), "qwen")
		for path, text := range map[string]string{filepath.Join(dir, file): text, program: "#!/bin/sh\ntouch " + mark + "\n"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		p := New(known(t, "qwen")).(runnel.Programmable).WithProgram([]string{program}, nil)
		_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
		if at := filepath.Join(dir, filepath.Dir(filepath.Dir(file))); runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: it was started", file)
		}
	}
}
