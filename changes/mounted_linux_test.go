package changes

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
)

// What is mounted in a worktree has its files elsewhere.
func TestRemovalKeepsWhatIsMounted(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	s.put(".git/info/exclude", "cache\n")
	outside, at := filepath.Join(s.home, "outside"), s.in().at("cache/white space")
	s.write(filepath.Join(outside, "file"), "mine")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(outside, at, "", unix.MS_BIND, ""); err != nil {
		t.Skip("this user may mount nothing: ", err)
	}
	t.Cleanup(func() { // wherever a removal has moved it
		for at := mountedIn(s.home); at != ""; at = mountedIn(s.home) {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, discard := range []bool{false, true} {
		_, err := s.remove(discard)
		expect(t, err, runnel.GitFailed, "mounted")
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.remove(false); err != nil {
		t.Fatal(err)
	}
	s.gone()
}
