package changes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testload"
)

func TestRemovalOfReadOnlyFolders(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	s.put(".git/info/exclude", "cache\n")
	s.in().put("cache/mod/file.go", "x")
	outside := filepath.Join(s.home, "outside")
	s.write(filepath.Join(outside, "file"), "x")
	if err := os.Symlink(outside, filepath.Join(s.w.Root, "cache", "mod", "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{outside, filepath.Join(s.w.Root, "cache", "mod"), filepath.Join(s.w.Root, "cache")} {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.remove(false); err != nil {
		t.Fatal(err)
	}
	s.gone()
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o500 {
		t.Errorf("the folder behind a link: %v, %v", st, err)
	}
	if left, err := os.ReadDir(filepath.Dir(s.w.Root)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.Chmod(outside, 0o700); err != nil {
		t.Fatal(err)
	}
}

// A crash during the creation can leave each of these states.
func TestUnfinishedWorktreeIsDropped(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	for _, without := range [][]string{{"index"}, {"index", ".git"}, {"index", "HEAD", ".git"}, {"index", "gitdir", "commondir", "HEAD", ".git"}} {
		s := newRig(t).add()
		admin := filepath.Join(s.folder.Dir, ".git", "worktrees", "one")
		s.write(filepath.Join(admin, "index.lock"), "")
		for _, name := range without {
			path := filepath.Join(admin, name)
			if name == ".git" {
				path = filepath.Join(s.w.Root, name)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.git.DropUnfinished(t.Context(), s.folder, s.w); err != nil {
			t.Errorf("without %q: %v", without, err)
		}
		s.gone()
	}
	s := newRig(t).add()
	s.in().put("a.txt", "work\n")
	_, err := s.git.DropUnfinished(t.Context(), s.folder, s.w)
	expect(t, err, runnel.GitFailed, "a.txt")
}

// git status passes over a folder that cannot be listed, and the removal could
// make it listable and delete its files.
func TestRemovalKeepsFoldersThatCannotBeListed(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	t.Parallel()
	s := newRig(t).add()
	in := s.in()
	in.put("deep/closed/work.txt", "work\n")
	if err := os.Chmod(in.at("deep/closed"), 0o300); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(in.at("deep/closed"), 0o700) })
	for _, may := range []Loss{LoseNothing, LoseIgnored} {
		_, err := s.git.RemoveWorktree(t.Context(), s.folder, s.w, may, "")
		expect(t, err, runnel.GitFailed, "deep/closed/")
	}
	equal(t, "file", in.read("deep/closed/work.txt"), "work\n")
	if _, err := s.remove(true); err != nil {
		t.Fatal(err)
	}
	s.gone()
}

// git status never reports a .git, so it does not show that a folder with tracked
// files is also a repository of its own.
func TestRemovalKeepsRepositoriesInTrackedFolders(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	in := s.in()
	in.run("init", "--quiet", "sub")
	in.run("-C", "sub", "commit", "--quiet", "--allow-empty", "--message", "only here")
	for _, may := range []Loss{LoseNothing, LoseIgnored} {
		_, err := s.git.RemoveWorktree(t.Context(), s.folder, s.w, may, "")
		expect(t, err, runnel.GitFailed, "sub/.git")
	}
	if _, err := s.remove(true); err != nil {
		t.Fatal(err)
	}
	s.gone()
}

// On macOS and Windows, git sets core.ignoreCase in new repositories. Where the
// file system distinguishes case, git status then leaves out files.
func TestRemovalKeepsFilesThatDifferInCase(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]string{"A.txt": "A.txt", "SUB/b.txt": "SUB/", "sub/.GIT/work": "sub/.GIT"} {
		s := newRig(t).add()
		in := s.in()
		if in.put(name, "only here\n"); in.read("a.txt") != first || in.read("sub/b.txt") != "b\n" {
			t.Skip("the file system does not distinguish case")
		}
		in.run("config", "core.ignoreCase", "true")
		for _, may := range []Loss{LoseNothing, LoseIgnored} {
			_, err := s.git.RemoveWorktree(t.Context(), s.folder, s.w, may, "")
			expect(t, err, runnel.GitFailed, shown)
		}
		if _, err := s.remove(true); err != nil {
			t.Fatal(err)
		}
		s.gone()
	}
}
