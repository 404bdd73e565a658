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

// An agent in a terminal creates the folder, and folders in it, with the umask 002.
// A member of the group could then put files there.
func TestFolderWithFilesOfAnotherUserStopsTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to create files of another user")
	}
	for _, name := range []string{"hash", "hash/1", "hash/1/file"} {
		env := []string{"TMPDIR=" + t.TempDir()}
		path := tempPath(env, "codex-")
		file := filepath.Join(path, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(file, 0o700), os.Chmod(path, 0o775), os.Chown(file, 65534, -1)); err != nil { //nolint:gosec // as with the umask 002
			t.Fatal(err)
		}
		for range 2 { // the folder is closed to its group by then
			if err := ClaimTemp(env, "Codex", "codex-"); runnel.CodeOf(err) != runnel.SessionCreateFailed {
				t.Errorf("%s: Codex follows links that another user makes: %v", name, err)
			}
		}
	}
}

// A member of the group can still write to an open folder, although nobody else can
// enter the folder around it any more.
func TestFoldersOfAnAgentAreClosedToItsGroup(t *testing.T) {
	env := []string{"TMPDIR=" + t.TempDir()}
	in := filepath.Join(tempPath(env, "codex-"), "hash")
	if err := errors.Join(os.MkdirAll(in, 0o700), os.WriteFile(filepath.Join(in, "1"), nil, 0o600), os.Chmod(in, 0o775)); err != nil { //nolint:gosec // as with the umask 002
		t.Fatal(err)
	}
	if err := ClaimTemp(env, "Codex", "codex-"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(in); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A folder that cannot be entered has no files that an agent could use.
func TestUnusableFolderForTemporaryFilesStopsNoAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ClaimTemp([]string{"TMPDIR=" + file}, "Codex", "codex-"); err != nil {
		t.Error(err)
	}
}
