//go:build unix

package claude

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
)

// A pipe or a link among the agent's conversations must not block or mislead
// History.
func TestSpecialFilesAmongTranscriptsAreSkipped(t *testing.T) {
	const id = "0192f0c1-7d5e-4c3a-9d0e-2b1f6f0f6a11"
	line := `{"type":"user","uuid":"a","sessionId":"` + id + `","timestamp":"2026-01-02T03:04:05Z","cwd":"/p","message":{"role":"user","content":"hi"}}` + "\n"
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	link := func(path string) error { return os.Symlink(secret, path) }
	for name, tt := range map[string]struct {
		main, meta, sidechain func(string) error
		folder                string // of projects that is a pipe
		wantEvents            bool
	}{
		"the file is a pipe":                  {main: pipe},
		"the file is a link":                  {main: link},
		"a subagent's description is a pipe":  {meta: pipe, wantEvents: true},
		"a subagent's conversation is a pipe": {sidechain: pipe, wantEvents: true},
		"another project's folder is a pipe":  {folder: "-q", wantEvents: true},
		"the folder of subagents is a pipe":   {folder: "-p/" + id + "/subagents", wantEvents: true},
		"the folder of all projects is one":   {folder: "."},
	} {
		t.Run(name, func(t *testing.T) {
			config := t.TempDir()
			t.Setenv("CLAUDE_CONFIG_DIR", config)
			project := filepath.Join(config, "projects", "-p")
			below := filepath.Join(project, id, "subagents")
			if err := os.MkdirAll(below, 0o700); err != nil {
				t.Fatal(err)
			}
			put := func(path, content string, special func(string) error) {
				if special == nil {
					special = func(p string) error { return os.WriteFile(p, []byte(content), 0o600) }
				}
				if err := special(path); err != nil {
					t.Fatal(err)
				}
			}
			put(filepath.Join(project, id+".jsonl"), line, tt.main)
			put(filepath.Join(below, "agent-1.meta.json"), `{"toolUseId":"x"}`, tt.meta)
			put(filepath.Join(below, "agent-1.jsonl"), line, tt.sidechain)
			if tt.folder != "" {
				path := filepath.Join(config, "projects", tt.folder)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := pipe(path); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan struct{})
			var events int
			var err error
			go func() {
				defer close(done)
				for _, e := range New().History(t.Context(), runnel.Conversation{AgentSessionID: id}) {
					if e != nil {
						err = e
						return
					}
					events++
				}
			}()
			select {
			case <-done:
			case <-time.After(waitTimeout):
				t.Fatal("History does not end")
			}
			if (events > 0) != tt.wantEvents || (err != nil) == tt.wantEvents {
				t.Errorf("got %d events, %v", events, err)
			}
		})
	}
}
