package changes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
)

// at returns the absolute path of a file of the folder.
func (rg *rig) at(name string) string { return filepath.Join(rg.folder.Dir, filepath.FromSlash(name)) }

// replace replaces a folder by a file, or by a link.
func (rg *rig) replace(folder string, link bool) {
	rg.t.Helper()
	err := os.RemoveAll(rg.at(folder))
	switch {
	case err != nil:
	case link:
		err = os.Symlink("elsewhere", rg.at(folder))
	default:
		err = os.WriteFile(rg.at(folder), []byte("agent\n"), 0o644)
	}
	if err != nil {
		rg.t.Fatal(err)
	}
}

func TestWorktreeWithReplacedFolderIsMerged(t *testing.T) {
	for name, link := range map[string]bool{"file": false, "link": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRig(t).add()
			s.in().replace("sub", link)
			st := s.state()
			equal(t, "state", st.State, WorktreeReady)
			if _, err := s.merge("replace the folder"); err != nil {
				t.Fatal(err)
			}
			equal(t, "files of the project", s.files(), "")
			if to, _ := os.Readlink(s.at("sub")); link {
				equal(t, "link", to, "elsewhere")
			} else {
				equal(t, "file", s.read("sub"), "agent\n")
			}
		})
	}
}

func TestReplacedFolderIsStaged(t *testing.T) {
	for name, link := range map[string]bool{"file": false, "link": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.replace("sub", link)
			rg.stage("sub/b.txt", "sub")
			equal(t, "files", rg.run("diff", "--cached", "--name-status", "--no-renames"), "A\tsub\nD\tsub/b.txt")
		})
	}
}

// To restore a file, git removes what has the name of a folder on the way.
func TestRevertKeepsWhatReplacedFolder(t *testing.T) {
	for name, tt := range map[string]struct{ link, staged bool }{
		"file":             {},
		"link":             {link: true},
		"staged deletion":  {staged: true},
		"link, and staged": {link: true, staged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			side := Unstaged
			if tt.staged {
				rg.run("rm", "-r", "--quiet", "sub")
				side = Staged
			}
			rg.replace("sub", tt.link)
			_, err := rg.git.Revert(t.Context(), rg.folder, "sub/b.txt", rg.diff("sub/b.txt", side).Seen, true)
			expect(t, err, runnel.GitFailed, "sub")
			if st, err := os.Lstat(rg.at("sub")); err != nil || st.IsDir() {
				t.Errorf("what replaced the folder: %v", err)
			}
		})
	}
}

func TestRevertOfMoveKeepsWhatReplacedFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.run("mv", "sub/b.txt", "c.txt")
	rg.replace("sub", true)
	_, err := rg.git.Revert(t.Context(), rg.folder, "c.txt", rg.diff("c.txt", Staged).Seen, true)
	expect(t, err, runnel.GitFailed, "sub")
	to, _ := os.Readlink(rg.at("sub"))
	equal(t, "link", to, "elsewhere")
}
