package acp

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// An agent that reads %2F or a backslash in the path of its folder as a slash
// would work in another folder than the session's.
func TestAgentsWorkInNoOtherFolder(t *testing.T) {
	eachOf(t, realagents.Usually("opencode"), func(t *testing.T, r *rig) {
		other := filepath.Join(r.Home.Project, "other")
		if err := os.Mkdir(other, 0o700); err != nil {
			t.Fatal(err)
		}
		names := []string{"a%2F..%2Fother"}
		if runtime.GOOS != "windows" {
			names = append(names, `b\..\`+"other")
		}
		for _, name := range names {
			r.Opt.Dir = filepath.Join(r.Home.Project, name)
			if err := os.Mkdir(r.Opt.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c, err := r.Provider.Open(t.Context(), r.Opt)
			if runnel.CodeOf(err) == runnel.SessionCreateFailed {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Takes(c)
			r.Play(calls(r.risky()), said)
			r.Finish(once)
			if agentrig.Exists(filepath.Join(other, "asked")) || !agentrig.Exists(filepath.Join(r.Opt.Dir, "asked")) {
				t.Errorf("%s: the agent worked in another folder", name)
			}
			r.Close()
		}
	})
}
