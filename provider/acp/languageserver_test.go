package acp

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
)

// A language server of the user runs programs of the folder, such as
// node_modules/typescript. GitHub Copilot and Claude Code start it without asking. In
// an untrusted folder, they must start none.
func TestLanguageServersOfTheUser(t *testing.T) {
	eachOf(t, []string{"copilot", "claude-agent-acp"}, func(t *testing.T, r *rig) {
		mark := r.OffersLanguageServer()
		ask := func() { r.AsksLanguageServer("lsp", "file", "view", "path"); r.DenyAll() }
		r.InstallsCopilotServer()
		if r.Agent.Name == "claude-agent-acp" {
			r.InstallsPlugins()
			// The configuration of the agent names the user's folders.
			r.Provider = New(known(t, r.Agent.Name)).(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), r.Opt.Env)
			r.Opt.Env = nil
			ask = func() { r.AsksLanguageServer("LSP", "filePath", "Read", "file_path"); r.DenyAll() }
		}
		ask()
		r.Close()
		if agentrig.Exists(mark) {
			t.Error("a language server ran a program of the folder")
		}
		r.Opt.Trusted, r.Conn = true, nil // proves that the test can fail
		ask()
		agentrig.Await(t, mark)
	})
}
