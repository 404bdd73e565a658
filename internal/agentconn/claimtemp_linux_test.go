package agentconn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
)

// Another user can fill the folder for temporary files, and make room in it once
// the agent has started.
func TestFolderThatIsNotClaimedBecauseTheDiskIsFullStopsTheAgent(t *testing.T) {
	tmp := t.TempDir()
	if err := unix.Mount("tmpfs", tmp, "tmpfs", 0, "size=1m,nr_inodes=3,mode=1777"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(tmp, unix.MNT_DETACH) })
	if err := os.Mkdir(filepath.Join(tmp, "opencode"), 0o777); err != nil { // as if another user had made it
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if err := os.Mkdir(filepath.Join(tmp, fmt.Sprint(n)), 0o700); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"TMPDIR=" + tmp}
	if err := ClaimTemp(env, "Codex", "codex-"); runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("another user can create the folder of Codex: %v", err)
	}
	if env, err := OwnTemp(env, "opencode"); runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("opencode works in the folder of another user: %q, %v", env, err)
	}
}

// An agent in a terminal creates the folder with the umask 002. A member of the
// group could then put folders there.
func TestFolderWithFilesOfAnotherUserStopsTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to create files of another user")
	}
	env := []string{"TMPDIR=" + t.TempDir()}
	path := tempPath(env, "codex-")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o775), os.Mkdir(filepath.Join(path, "hash"), 0o700), os.Chown(filepath.Join(path, "hash"), 65534, -1)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the folder is closed to its group by then
		if err := ClaimTemp(env, "Codex", "codex-"); runnel.CodeOf(err) != runnel.SessionCreateFailed {
			t.Errorf("Codex follows links that another user makes: %v", err)
		}
	}
}
