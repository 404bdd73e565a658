package claude

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
)

// A language server of one of the user's plugins runs programs of the folder, such as
// node_modules/typescript. Claude Code starts it, without asking, when the model edits
// a file or asks the server. In an untrusted folder, it must start none.
func TestLanguageServersOfPlugins(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		mark := r.OffersLanguageServer()
		r.InstallsPlugins()
		r.AsksLanguageServer("LSP", "filePath", "Read", "file_path")
		r.DenyAll()
		r.Close()
		if exists(mark) {
			t.Error("a language server ran a program of the folder")
		}
		r.Opt.Trusted, r.Conn = true, nil // proves that the test can fail
		r.AsksLanguageServer("LSP", "filePath", "Read", "file_path")
		agentrig.Await(t, mark) // 2.1.197 then waits for the server forever, so the turn does not end
	})
}

// Of several settings on its command line, Claude Code obeys the last one only.
func TestConfiguredArgumentsWithPluginsAreRefusedInAnUntrustedFolder(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.InstallsPlugins()
		r.Opt.Path = "" // the arguments belong to the configured program
		for _, args := range [][]string{{"--plugin-dir", "mine"}, {"--plugin-url=https://example.org/p.zip"}, {"--settings={}"}} {
			p := r.Provider.(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, args...), nil)
			c, err := p.Open(t.Context(), r.Opt)
			if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "trusted-folders") {
				t.Errorf("%s: %v", args, err)
			}
			if err == nil {
				_ = c.Close()
			}
		}
	})
}
