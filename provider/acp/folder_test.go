package acp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// An agent that reads %2F in the path of its folder as a slash would work in
// another folder than the session's.
func TestAgentsWorkInNoOtherFolder(t *testing.T) {
	eachOf(t, realagents.Usually("opencode"), func(t *testing.T, r *rig) {
		other := filepath.Join(r.Home.Project, "other")
		r.Opt.Dir = filepath.Join(r.Home.Project, "a%2F..%2Fother")
		for _, dir := range []string{other, r.Opt.Dir} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c, err := r.Provider.Open(t.Context(), r.Opt)
		if runnel.CodeOf(err) == runnel.SessionCreateFailed {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Takes(c)
		r.Play(calls(r.risky()), said)
		r.Finish(once)
		if agentrig.Exists(filepath.Join(other, "asked")) || !agentrig.Exists(filepath.Join(r.Opt.Dir, "asked")) {
			t.Error("the agent worked in another folder")
		}
	})
}
