package recordings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/loadtest"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// The test makes each string of the agents very long, one at a time. Every field
// of an event stays within its bound. Strings in fields, which end up in lists
// of the gateway, grow to megabytes.
func TestEveryStringOfTheAgentIsBounded(t *testing.T) {
	acp, fields := []string{"settings@*", "approval-allowed@*"}, []string{"sessionId", "title"}
	for _, tt := range []struct {
		agent, folder string
		recordings    []string // patterns of the names of files
		fields        []string // none if those of another agent suffice
	}{
		{"claude-code", "claude/testdata", []string{"todos@2.1.330"}, []string{"session_id", "model", "name"}},
		{"codex", "codex/testdata", []string{"ask-command@0.169.0", "mcp@0.169.0"}, []string{"model", "tool"}},
		{"codex-acp", "acp/testdata/codex-acp", acp, fields},
		{"claude-agent-acp", "acp/testdata/claude-agent-acp", acp, nil}, // the bounds are the same for all agents that speak ACP
		{"copilot", "acp/testdata/copilot", acp, nil},
		{"gemini", "acp/testdata/gemini", acp, nil},
		{"opencode", "acp/testdata/opencode", acp, nil},
		{"qwen", "acp/testdata/qwen", acp, nil},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			for _, pattern := range tt.recordings {
				found, err := filepath.Glob(filepath.Join("../../provider", tt.folder, pattern+".txtar"))
				if err != nil || len(found) == 0 {
					t.Fatalf("%s: %q, %v", pattern, found, err)
				}
				if testing.Short() {
					found = found[len(found)-1:]
				}
				for i, file := range found { // one file for each version
					a, err := txtar.ParseFile(file)
					if err != nil {
						t.Fatal(err)
					}
					in, p := recordtest.Section(a, "in"), provider(t, tt.agent)
					loadtest.Hostile(t, p, in, event.MaxNote+1, 20)
					if tt.fields != nil && (i == 0 || os.Getenv("RUNNEL_LONG") != "") {
						loadtest.Hostile(t, p, in, 5<<20, 1, tt.fields...)
					}
				}
			}
		})
	}
}
