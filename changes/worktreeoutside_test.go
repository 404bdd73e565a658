package changes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// The commits of the agent change only files of the folder, but the merge would
// apply the change to a file that a person has moved out of the folder.
func TestMergeDoesNotFollowMovesOutOfFolder(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg := newRig(t)
	rg.folder.Dir = filepath.Join(rg.folder.Dir, "sub")
	rg.put("deploy.sh", "one\ntwo\nthree\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "script")
	s := rg.add()
	s.in().put("sub/deploy.sh", "one\ntwo\nthree\nfour\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	rg.run("mv", "deploy.sh", "../deploy.sh")
	rg.run("commit", "--quiet", "--message", "person")
	before := rg.run("rev-parse", "HEAD")
	_, err := s.merge("")
	expect(t, err, runnel.GitFailed, "outside of the project's folder: deploy.sh")
	equal(t, "file outside", rg.read("../deploy.sh"), "one\ntwo\nthree\n")
	equal(t, "last commit", rg.run("rev-parse", "HEAD"), before)
}

// The agent makes the merge of two branches a second time, without what one of
// them changes outside of the folder. Both merges have two common ancestors, and
// compared with one of them, the agent has changed nothing outside.
func TestMergeThatRevertsFilesOutsideOfTheFolderFails(t *testing.T) {
	testload.TakesLong(t)
	for _, undone := range []string{"first", "second"} {
		t.Run(undone, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.run("branch", "second")
			rg.put("first.txt", "fixed\n")
			rg.run("add", ".")
			rg.run("commit", "--quiet", "--message", "first")
			first := rg.run("rev-parse", "HEAD")
			rg.run("checkout", "--quiet", "second")
			rg.put("second.txt", "fixed\n")
			rg.run("add", ".")
			rg.run("commit", "--quiet", "--message", "second")
			second := rg.run("rev-parse", "HEAD")
			rg.run("checkout", "--quiet", "main")
			rg.run("merge", "--quiet", "--no-edit", "second")
			rg.folder.Dir = filepath.Join(rg.folder.Dir, "sub")
			s := rg.add()
			in := s.in()
			in.run("rm", "--quiet", undone+".txt")
			in.put("sub/b.txt", "changed\n")
			in.run("add", ".")
			tree := in.run("write-tree")
			in.run("reset", "--quiet", "--hard", strings.TrimSpace(in.run("commit-tree", tree, "-p", first, "-p", second, "-m", "agent")))
			_, err := s.merge("")
			expect(t, err, runnel.GitFailed, "outside of the project's folder: ")
			expect(t, err, runnel.GitFailed, undone+".txt") // git may compare with the other ancestor, and then has both files
			equal(t, "file outside", rg.read("../"+undone+".txt"), "fixed\n")
		})
	}
}
