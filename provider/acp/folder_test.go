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

func TestFoldersInWhichOpencodeWorks(t *testing.T) {
	top := t.TempDir()
	for name, refused := range map[string]bool{"100%": false, "50% off": false, "a%zz": false, "\u00e9 %C": false, "a%20b": true, "a%2Fb": true, "100%25": true} {
		dir, link := filepath.Join(top, name), filepath.Join(top, "link")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, link} {
			if err := opencodeDir(path); (err != nil) != refused {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}
