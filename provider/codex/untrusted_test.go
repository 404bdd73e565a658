package codex

import (
	"bytes"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

func TestUntrustedRepositoryRunsNothing(t *testing.T) {
	r := newRig(t)
	trap := r.SetTrap()
	r.Withstands(trap)
	for _, q := range r.Model.Requests() { // the agent reads only the descriptions of the folder's skills
		rest := bytes.ReplaceAll(q.Body, []byte("evil: "+realagents.Memory), nil)
		if i := bytes.Index(rest, []byte(realagents.Memory)); i >= 0 {
			t.Errorf("the model received the folder's instructions: %.400s", rest[max(i-200, 0):])
		}
	}
	// If the folder is trusted, its settings apply.
	r.Opt.Trusted = true
	r.Open()
	tick := time.NewTicker(50 * time.Millisecond) // the MCP server starts concurrently with the conversation
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); len(trap.Ran()) == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("nothing ran in the trusted folder")
		}
	}
}

func TestRepositoryWhoseGitRunsProgramsIsRefused(t *testing.T) { newRig(t).WithstandsGit(nil) }

// The user's configuration may remove variables with names such as KEY from the
// environment of commands. GIT_CONFIG_KEY_0 is such a name.
func TestGitSettingsReachToolsThatFilterVariables(t *testing.T) {
	r := newRig(t)
	r.append("[shell_environment_policy]\nignore_default_excludes = false\nset = { MINE = \"1\" }\n")
	r.Play(fakemodel.Step{Blocks: []fakemodel.Block{realagents.ToolsetOf(r.Agent.Name).Ask("echo $MINE > mine")}}, fakemodel.Step{Text: "Done."})
	r.Finish(allowOnce)
	r.Conn.Close()
	if got := r.Read("mine"); got != "1\n" {
		t.Errorf("the user's own variable is %q", got)
	}
	r.WithstandsGit(nil)
}
