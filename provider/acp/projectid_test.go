package acp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
)

// git runs git in a folder of the project.
func (r *rig) git(dir string, args ...string) {
	r.T.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+r.Home.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.T.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// put writes a file and the folders that lead to it.
func (r *rig) put(path, text string) {
	r.T.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.T.Fatal(err)
	}
}

// opencode keeps the id of a project in the file opencode of its git directory.
// It overwrites what a link there leads to, and its snapshots use the git
// directory to which an id such as ../../elsewhere leads, with the programs that
// its configuration names.
func TestFolderChoosesNoPathsOfOpencode(t *testing.T) {
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		mark, beside := filepath.Join(r.Home.Dir, "ran"), filepath.Join(filepath.Dir(r.Home.Project), "beside")
		victim := filepath.Join(r.Home.Dir, "victim")
		r.put(victim, "precious\n")
		r.git(r.Home.Project, "init", "-q")
		r.Write(".gitattributes", "* filter=evil\n")
		r.git(r.Home.Project, "add", ".")
		r.git(r.Home.Project, "commit", "-qm", "one")
		id := r.File(".git/opencode")

		// A snapshot of an ordinary repository shows the name of its git directory.
		snapshots := filepath.Join(r.Home.Dir, ".local", "share", "opencode", "snapshot")
		r.Play(calls(r.risky()), said)
		r.DenyAll()
		r.Close()
		r.Conn = nil
		made, err := filepath.Glob(filepath.Join(snapshots, "*", "*", "config"))
		if err != nil || len(made) != 1 {
			t.Fatalf("snapshots: %q, %v", made, err)
		}
		r.git(t.TempDir(), "init", "-q", "--bare", filepath.Join(beside, filepath.Base(filepath.Dir(made[0]))))
		r.git(filepath.Join(beside, filepath.Base(filepath.Dir(made[0]))), "config", "filter.evil.clean", "touch "+mark+"; cat")
		out, err := filepath.Rel(snapshots, beside)
		if err != nil {
			t.Fatal(err)
		}

		for i, name := range []string{"id", "link"} {
			if err := os.RemoveAll(id); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				r.put(id, out+"\n")
			} else if err := os.Symlink(victim, id); err != nil {
				t.Fatal(err)
			} else { // opencode stores a new id
				r.git(r.Home.Project, "remote", "add", "origin", "https://example.org/a")
			}
			c, err := r.Provider.Open(t.Context(), r.Opt)
			if runnel.CodeOf(err) == runnel.SessionCreateFailed && strings.Contains(err.Error(), id) {
				continue
			}
			t.Errorf("%s: opencode was started: %v", name, err)
			if err == nil {
				r.Takes(c)
				r.Write("b.txt", "changed\n")
				r.Play(calls(r.risky()), said)
				r.DenyAll()
				r.Close()
				r.Conn = nil
			}
		}
		if agentrig.Exists(mark) {
			t.Error("a program ran that the folder chose")
		}
		if got, err := os.ReadFile(victim); string(got) != "precious\n" {
			t.Errorf("a file outside of the folder was overwritten: %q, %v", got, err)
		}
	})
}

func TestProjectIDsOfOpencode(t *testing.T) {
	const hash = "8c1e4b4ff4dff2063bf2ba2f075cda02c8626a2f"
	for name, test := range map[string]struct {
		lay     func(r *rig, dir string)
		refused bool
	}{
		"none":             {func(*rig, string) {}, false},
		"hash":             {func(r *rig, dir string) { r.put(dir+"/.git/opencode", hash+"\n") }, false},
		"sha256":           {func(r *rig, dir string) { r.put(dir+"/.git/opencode", strings.Repeat("0a", 32)) }, false},
		"global":           {func(r *rig, dir string) { r.put(dir+"/.git/opencode", "global") }, false},
		"empty":            {func(r *rig, dir string) { r.put(dir+"/.git/opencode", "\n") }, false},
		"path":             {func(r *rig, dir string) { r.put(dir+"/.git/opencode", "../"+hash) }, true},
		"two lines":        {func(r *rig, dir string) { r.put(dir+"/.git/opencode", hash+"\n"+hash) }, true},
		"long":             {func(r *rig, dir string) { r.put(dir+"/.git/opencode", strings.Repeat("a", 1<<16)) }, true},
		"far behind":       {func(r *rig, dir string) { r.put(dir+"/.git/opencode", hash+strings.Repeat("\n", 100)+"/..") }, true},
		"folder":           {func(r *rig, dir string) { r.put(dir+"/.git/opencode/a", "") }, true},
		"above":            {func(r *rig, dir string) { r.put(filepath.Dir(dir)+"/.git/opencode", "..") }, true},
		"repository below": {func(r *rig, dir string) { r.put(dir+"/sub/.git/opencode", "..") }, false},
		"separate":         {func(r *rig, dir string) { r.put(dir+"/.git", "gitdir: ../b\n"); r.put(dir+"/../b/opencode", "..") }, true},
		"worktree":         {func(r *rig, dir string) { r.put(dir+"/.git/commondir", "../../c\n"); r.put(dir+"/../c/opencode", "..") }, true},
		"bare": {func(r *rig, dir string) {
			r.git(filepath.Dir(dir), "init", "-q", "--bare", dir)
			r.put(dir+"/opencode", "..")
		}, true},
		"separate worktree": {func(r *rig, dir string) {
			r.put(dir+"/.git", "gitdir: ../b\n")
			r.put(dir+"/../b/commondir", "../c")
			r.put(dir+"/../c/opencode", "..")
		}, true},
	} {
		r := &rig{&agentrig.Rig{T: t}}
		dir := filepath.Join(t.TempDir(), "a")
		r.put(dir+"/a.txt", "")
		test.lay(r, dir)
		if found := opencodeProject(dir); (found != "") != test.refused {
			t.Errorf("%s: refused because of %q", name, found)
		}
	}
}

// A link to a folder leads to other repositories than the link is in. Those of the
// user's home directory are the user's own.
func TestProjectIDsBehindALinkAndAtHome(t *testing.T) {
	r := &rig{&agentrig.Rig{T: t}}
	top := t.TempDir()
	home, dir, link := filepath.Join(top, "home"), filepath.Join(top, "home", "a", "b"), filepath.Join(top, "home", "link")
	t.Setenv("HOME", home)
	r.put(home+"/.git/opencode", "..")
	r.put(dir+"/a.txt", "")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if found := opencodeProject(path); found != "" {
			t.Errorf("%s: refused because of %q", path, found)
		}
	}
	r.put(home+"/a/.git/opencode", "..")
	for _, path := range []string{dir, link} {
		if opencodeProject(path) == "" {
			t.Errorf("%s: not refused", path)
		}
	}
}
