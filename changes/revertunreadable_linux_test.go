package changes

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
)

func TestRevertKeepsFileThatServerCannotRead(t *testing.T) {
	rg := newRig(t)
	rg.put("secret.txt", "staged\n")
	rg.run("add", "secret.txt")
	rg.put("secret.txt", "mine\n")
	if err := os.Chmod(rg.at("secret.txt"), 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		_, err := rg.git.Revert(t.Context(), rg.folder, "secret.txt", rg.diff("secret.txt", Staged).Seen, true)
		expect(t, err, runnel.GitFailed, "secret.txt")
	} else { // root can read the file, so another user tries to keep it
		for dir := rg.folder.Dir; dir != "/" && dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		r, _, err := rg.git.open(t.Context(), rg.folder)
		if err != nil {
			t.Fatal(err)
		}
		kept := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
			if _, err := unix.SetfsuidRetUid(65534); err != nil {
				t.Error(err)
			}
			_, err := rg.git.keep(t.Context(), r, "secret.txt")
			kept <- err
		}()
		expect(t, <-kept, runnel.GitFailed, "secret.txt")
	}
	if _, err := os.Lstat(rg.at("secret.txt")); err != nil {
		t.Error(err)
	}
}
