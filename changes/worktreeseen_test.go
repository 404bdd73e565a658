package changes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// Whatever changes in a worktree or its project, a person who has seen the state
// before neither merges nor discards it.
func TestWorktreeChangedSinceItWasSeenIsNeitherMergedNorDiscarded(t *testing.T) {
	for name, change := range map[string]func(s *site){
		"a file has other content of the same size": func(s *site) { s.in().put("a.txt", "tw2\n") },
		"a new file":                    func(s *site) { s.in().put("more.txt", "") },
		"a file is as in the commit":    func(s *site) { s.in().put("a.txt", "one\ntwo\nthree\n") },
		"a file is executable":          func(s *site) { chmod(s, "a.txt", 0o755) },
		"a commit":                      func(s *site) { s.in().run("commit", "--quiet", "--allow-empty", "-m", "empty") },
		"a file is staged":              func(s *site) { s.in().run("add", "a.txt") },
		"another branch":                func(s *site) { s.in().run("switch", "--quiet", "-c", "other") },
		"a repository in the worktree":  func(s *site) { s.in().run("init", "--quiet", "nested") },
		"a commit in the project":       func(s *site) { s.run("commit", "--quiet", "--allow-empty", "-m", "mine") },
		"another branch in the project": func(s *site) { s.run("switch", "--quiet", "-c", "mine") },
		"another file":                  func(s *site) { s.in().put("z.txt", strings.Repeat("b", 100)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "a new file" && name != "a commit" {
				testload.TakesLong(t)
			}
			t.Parallel()
			rg := newRig(t)
			s := rg.add()
			s.in().put("a.txt", "two\n")
			s.in().put("z.txt", strings.Repeat("a", 100))
			seen := s.state().Seen
			if again := s.state().Seen; seen == "" || again != seen {
				t.Fatalf("the same state is %q and %q", seen, again)
			}
			change(s)
			if now := s.state().Seen; now == seen {
				t.Error("the changed state is the same")
			}
			head := s.head()
			_, err := s.git.MergeWorktree(t.Context(), s.folder, s.w, "m", seen)
			expect(t, err, runnel.ChangesOutdated, "has changed since you looked at it")
			_, err = s.git.RemoveWorktree(t.Context(), s.folder, s.w, LoseWork, seen)
			expect(t, err, runnel.ChangesOutdated, "has changed since you looked at it")
			if _, err := os.Lstat(s.w.Root); err != nil || s.head() != head {
				t.Errorf("the worktree or the project was changed: %v", err)
			}
		})
	}
}

func chmod(s *site, name string, mode os.FileMode) {
	s.t.Helper()
	if err := os.Chmod(filepath.Join(s.w.Root, name), mode); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) head() string {
	s.t.Helper()
	id, err := os.ReadFile(filepath.Join(s.folder.Dir, ".git", "refs", "heads", "main"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(id)
}

func TestMergeOfWorktreeNeedsWhatWasSeen(t *testing.T) {
	rg := newRig(t)
	s := rg.add()
	s.in().put("a.txt", "two\n")
	_, err := s.git.MergeWorktree(t.Context(), s.folder, s.w, "m", "")
	expect(t, err, runnel.InvalidRequest, "seen")
}

// The state of a worktree whose folder somebody removed stands for its branch,
// too: what was committed there can be lost.
func TestSeenOfRemovedFolderStandsForItsBranch(t *testing.T) {
	rg := newRig(t)
	s := rg.add()
	if err := os.RemoveAll(s.w.Root); err != nil {
		t.Fatal(err)
	}
	before := s.state()
	if before.State != WorktreeMissing || before.Seen == "" || s.state().Seen != before.Seen {
		t.Fatalf("got %+v", before)
	}
	later := s.run("commit-tree", "-p", "HEAD", "-m", "later", "HEAD^{tree}")
	s.run("update-ref", "refs/heads/"+s.w.Branch, later)
	_, err := s.git.RemoveWorktree(t.Context(), s.folder, s.w, LoseWork, before.Seen)
	expect(t, err, runnel.ChangesOutdated, "has changed since you looked at it")
}

// Each folder on the way to a file is opened on its own, which takes minutes for
// many files in a deep folder.
func TestStateOfWorktreeWithDeepFiles(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	s := newRig(t).add()
	dir := strings.Repeat("a/", 1500)
	for i := range 1000 {
		s.in().put(dir+strconv.Itoa(i), "x")
	}
	began := time.Now()
	st := s.state()
	equal(t, "files", st.Uncommitted, 1000)
	testload.Within(t, "the state", began, 10*time.Second)
	s.in().put(dir+"999", "y")
	if s.state().Seen == st.Seen {
		t.Error("a change is not noticed")
	}
}

// The state of a worktree that cannot be examined does not stand for its
// commits and files, so nobody has seen what a merge would add.
func TestMergeOfWorktreeThatCannotBeExaminedFails(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	in := s.in()
	in.put("new.txt", "agent\n")
	in.run("add", ".")
	in.run("commit", "--quiet", "--message", "agent")
	rg.replaceGit(func(git, _ string) string {
		return "#!/bin/sh\ncase \" $* \" in *\" for-each-ref \"*) exit 1 ;; esac\nexec '" + git + "' \"$@\"\n"
	})
	st := s.state()
	equal(t, "state", st.State, WorktreeRefused)
	_, err := s.git.MergeWorktree(t.Context(), s.folder, s.w, "", st.Seen)
	expect(t, err, runnel.GitFailed, "git failed")
	equal(t, "last commit", rg.run("rev-parse", "HEAD"), s.w.Base)
}
