package changes

import (
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
)

// nested makes a repository with a commit in a folder of the rig.
func (rg *rig) nested(name string) {
	in := *rg
	in.folder.Dir = rg.at(name)
	in.put("x", "x\n")
	in.run("init", "--quiet")
	in.run("add", "x")
	in.run("commit", "--quiet", "--message", "x")
}

// Git removes the folder of a submodule with all its files, and with its
// repository, when a commit has a file in its place.
func TestMergeKeepsFoldersOfSubmodules(t *testing.T) {
	for name, tt := range map[string]struct {
		submodule string
		replaced  string // by a file of the worktree
		trusted   bool
		absorbed  bool // the repository of the submodule is in .git/modules
		diverged  bool
	}{
		"submodule":           {submodule: "lib", replaced: "lib"},
		"in a trusted folder": {submodule: "lib", replaced: "lib", trusted: true},
		"absorbed":            {submodule: "lib", replaced: "lib", absorbed: true},
		"merge commit":        {submodule: "lib", replaced: "lib", diverged: true},
		"folder around it":    {submodule: "sub/lib", replaced: "sub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.folder.Trusted = tt.trusted
			rg.nested(tt.submodule)
			rg.put(".gitmodules", "[submodule \"lib\"]\n\tpath = "+tt.submodule+"\n\turl = ./lib\n")
			rg.run("add", ".")
			rg.run("commit", "--quiet", "--message", "submodule")
			if tt.absorbed {
				rg.run("submodule", "absorbgitdirs")
			}
			rg.put(tt.submodule+"/x", "mine\n")
			s := rg.add()
			in := s.in()
			in.run("rm", "-r", "--quiet", tt.replaced)
			if err := os.RemoveAll(in.at(tt.replaced)); err != nil {
				t.Fatal(err)
			}
			in.put(tt.replaced, "agent\n")
			in.run("add", ".")
			in.run("commit", "--quiet", "--message", "agent")
			if tt.diverged {
				rg.put("new.txt", "mine\n")
				rg.run("add", "new.txt")
				rg.run("commit", "--quiet", "--message", "mine")
			}
			before := rg.run("rev-parse", "HEAD")
			_, err := s.merge("")
			expect(t, err, runnel.GitFailed, tt.submodule)
			equal(t, "file of the submodule", rg.read(tt.submodule+"/x"), "mine\n")
			equal(t, "last commit", rg.run("rev-parse", "HEAD"), before)
		})
	}
}

func TestMergeReplacesSubmodulesWithoutFiles(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.run("update-index", "--add", "--cacheinfo", "160000,"+rg.run("rev-parse", "HEAD")+",lib")
	rg.run("commit", "--quiet", "--message", "submodule")
	s := rg.add()
	in := s.in()
	in.run("rm", "--cached", "--quiet", "lib")
	in.run("clean", "-d", "--force", "--quiet")
	in.put("lib", "agent\n")
	in.run("add", "lib")
	in.run("commit", "--quiet", "--message", "agent")
	if _, err := s.merge(""); err != nil {
		t.Fatal(err)
	}
	equal(t, "lib", rg.read("lib"), "agent\n")
}
