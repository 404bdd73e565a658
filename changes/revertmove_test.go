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
