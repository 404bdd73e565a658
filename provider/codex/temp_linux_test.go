package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Codex follows links in this folder when it writes, also if another user owns it.
func TestFolderOfAnotherUserStopsCodex(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.Home.Tmp, fmt.Sprintf("codex-bwrap-synthetic-mount-targets-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // as if another user had made it
		t.Fatal(err)
	}
	c, err := r.Provider.Open(t.Context(), r.Opt)
	if runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("started in a folder in which everybody can put links: %v", err)
	}
	if err == nil {
		c.Close()
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.Open()
	if st, err := os.Lstat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("another user could create the folder: %v", err)
	}
	r.Close()
	if err := os.Chmod(dir, 0o775); err != nil { // Codex makes it so with the umask 002
		t.Fatal(err)
	}
	r.Open()
	if st, err := os.Lstat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("another user could create the folder: %v", err)
	}
}
