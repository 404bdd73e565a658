package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// Gemini CLI 0.61.0 reads without asking where a link in its folder for a
// directory leads. An agent in a sandbox can write these folders.
func TestGeminiIsNotStartedBesideLinksInItsState(t *testing.T) {
	for name, tt := range map[string]struct {
		link    string // in the agent's folder; "" for none
		refused bool
	}{
		"folder of a directory": {"tmp/project", true},
		"folder in it":          {"tmp/other/plans", true},
		"plans of conversation": {"tmp/other/11111111-2222-4333-8444-555555555555/plans", true},
		"below these":           {"tmp/other/tool-outputs/session-1/link", false},
		"none":                  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			own, mark, program := filepath.Join(home, ".gemini"), filepath.Join(home, "started"), filepath.Join(home, "gemini")
			if err := os.MkdirAll(filepath.Join(own, filepath.Dir(tt.link), "chats"), 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.link != "" {
				if err := os.Symlink(t.TempDir(), filepath.Join(own, tt.link)); err != nil {
					t.Fatal(err)
				}
			}
			if err := testexec.Write(program, "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
				t.Fatal(err)
			}
			p := New(known(t, "gemini")).(runnel.Programmable).WithProgram([]string{program}, []string{"HOME=" + home})
			_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
			if refused := runnel.CodeOf(err) == runnel.SessionCreateFailed && strings.Contains(err.Error(), filepath.Join(own, tt.link)+" is a link"); refused != tt.refused {
				t.Error(err)
			}
			if _, err := os.Stat(mark); (err != nil) != tt.refused {
				t.Errorf("started: %v", err)
			}
		})
	}
}
