package changes

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// The revert of a move writes the file from which the other was moved.
func TestRevertOfMoveKeepsNewFileOfOldName(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.run("mv", "a.txt", "moved.txt")
	rg.put("a.txt", "new\n")
	_, err := rg.git.Revert(t.Context(), rg.folder, "moved.txt", rg.diff("moved.txt", Staged).Seen, false)
	expect(t, err, runnel.GitFailed, "moved from a.txt")
	equal(t, "new file", rg.read("a.txt"), "new\n")
	equal(t, "moved file", rg.read("moved.txt"), "one\ntwo\nthree\n")
}

// Git removes a folder that has the name of a file which it checks out.
func TestRevertOfDeletionKeepsFolderOfThatName(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.run("rm", "--quiet", "a.txt")
	rg.put(".git/info/exclude", "a.txt\n")
	rg.put("a.txt/kept", "new\n")
	_, err := rg.git.Revert(t.Context(), rg.folder, "a.txt", rg.diff("a.txt", Staged).Seen, false)
	expect(t, err, runnel.GitFailed, "A folder has the name a.txt")
	equal(t, "file in the folder", rg.read("a.txt/kept"), "new\n")
}
