//go:build unix

package changes

import (
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
)

func TestRevertKeepsFileThatServerCannotRead(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can read every file")
	}
	rg := newRig(t)
	rg.put("secret.txt", "staged\n")
	rg.run("add", "secret.txt")
	rg.put("secret.txt", "mine\n")
	if err := os.Chmod(rg.at("secret.txt"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := rg.git.Revert(t.Context(), rg.folder, "secret.txt", rg.diff("secret.txt", Staged).Seen, true)
	expect(t, err, runnel.GitFailed, "secret.txt")
	if _, err := os.Lstat(rg.at("secret.txt")); err != nil {
		t.Error(err)
	}
}
