package all

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// If an agent ends before it is ready, the error says how it ended, whichever
// agent it is.
func TestErrorOfAnAgentThatDoesNotStartSaysHowItEnded(t *testing.T) {
	for name, c := range map[string]struct{ script, wants string }{
		"with a code": {"exit 3", "(exit status 3)"},
		"by a signal": {"kill -9 $$", "(SIGKILL)"},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "agent")
			if err := testexec.Write(program, "#!/bin/sh\n"+c.script+"\n"); err != nil {
				t.Fatal(err)
			}
			for _, p := range Providers() {
				pr, ok := p.(runnel.Programmable)
				if !ok {
					continue
				}
				t.Run(p.Name(), func(t *testing.T) {
					conn, err := pr.WithProgram([]string{program}, nil).Open(t.Context(), runnel.Options{Dir: t.TempDir()})
					if err == nil {
						conn.Close()
					}
					if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), c.wants) {
						t.Error(err)
					}
				})
			}
		})
	}
}
