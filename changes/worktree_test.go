package changes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// A site is a project with a worktree.
type site struct {
	*rig
	w Worktree
}

// root is where the worktrees of a rig are made.
func (rg *rig) worktreeRoot() string { return filepath.Join(filepath.Dir(rg.home), "worktrees", "one") }

// tryAdd makes a worktree of the rig's folder.
func (rg *rig) tryAdd() (Worktree, error) {
	rg.t.Helper()
	root := rg.worktreeRoot()
	if err := os.MkdirAll(filepath.Dir(root), 0o700); err != nil {
		rg.t.Fatal(err)
	}
	w, err := rg.git.PlanWorktree(rg.t.Context(), rg.folder, root, "runnel/one")
	if err != nil {
		return w, err
	}
	return w, rg.git.AddWorktree(rg.t.Context(), rg.folder, w)
}

func (rg *rig) add() *site {
	rg.t.Helper()
	w, err := rg.tryAdd()
	if err != nil {
		rg.t.Fatal(err)
	}
	return &site{rg, w}
}

// in returns a rig for the same user in the worktree.
func (s *site) in() *rig {
	r := *s.rig
	r.folder.Dir = s.w.Root
	return &r
}

func (s *site) state() WorktreeStatus {
	s.t.Helper()
	st, err := s.git.WorktreeStatus(s.t.Context(), s.folder, s.w)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *site) merge(message string) (Merged, error) {
	s.t.Helper()
	return s.git.MergeWorktree(s.t.Context(), s.folder, s.w, message, s.state().Seen)
}

func (s *site) remove(discard bool) (Removed, error) {
	may := LoseIgnored
	if discard {
		may = LoseWork
	}
	s.t.Helper()
	return s.git.RemoveWorktree(s.t.Context(), s.folder, s.w, may, s.state().Seen)
}

// gone fails unless nothing of the worktree is left.
func (s *site) gone() {
	s.t.Helper()
	if _, err := os.Lstat(s.w.Root); !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("the folder of the worktree: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.folder.Dir, ".git", "worktrees")); !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("the directory in the repository: %v", err)
	}
	equal(s.t, "branches", s.run("branch", "--list", "runnel/*"), "")
}

func TestWorktreeIsMadeMergedAndRemoved(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		rg := newRig(t)
		rg.folder.Trusted = trusted
		s := rg.add()
		equal(t, "directory", s.w.Dir, s.w.Root)
		equal(t, "from", s.w.From, "main")
		equal(t, "base", s.w.Base, rg.run("rev-parse", "HEAD"))
		equal(t, "file", s.in().read("sub/b.txt"), "b\n")
		equal(t, "status in the worktree", s.in().run("status", "--porcelain", "--branch"), "## runnel/one")
		equal(t, "status in the project", rg.run("status", "--porcelain"), "")
		equal(t, "check by git", rg.run("fsck"), "")

		s.in().put("a.txt", "one\nchanged\n")
		s.in().put("new.txt", "new\n")
		s.in().run("rm", "--quiet", "sub/b.txt")
		st := s.state()
		equal(t, "state", st.State, WorktreeReady)
		equal(t, "files", strings.Join(st.Files, " "), "a.txt sub/b.txt new.txt")
		equal(t, "uncommitted", st.Uncommitted, 3)
		equal(t, "ahead and behind", [2]int{st.Ahead, st.Behind}, [2]int{0, 0})

		_, err := s.merge(" ")
		expect(t, err, runnel.GitFailed, "new.txt")
		m, err := s.merge("what the agent did")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "fast forward", m.FastForward, true)
		equal(t, "commits", m.Commits, 1)
		equal(t, "branch", m.Branch, "main")
		equal(t, "committed", m.Committed, m.Commit)
		equal(t, "head", rg.run("rev-parse", "HEAD"), m.Commit)
		equal(t, "log", rg.run("log", "--format=%s %an"), "what the agent did Ada\nfirst Ada")
		equal(t, "status after the merge", rg.run("status", "--porcelain", "--branch"), "## main")
		equal(t, "merged file", rg.read("new.txt"), "new\n")
		equal(t, "deleted file", rg.read("sub/b.txt"), "")
		_, err = s.merge("")
		expect(t, err, runnel.GitFailed, "nothing to merge")

		out, err := s.remove(false)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "lost", len(out.Lost), 0)
		s.gone()
		equal(t, "state after the removal", s.state().State, WorktreeMissing)
	}
}

func TestMergeWithNewCommitsInProject(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	s.in().put("a.txt", "one\ntwo\nthree\nfour\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	rg.put("a.txt", "zero\none\ntwo\nthree\n")
	rg.run("commit", "--quiet", "--all", "--message", "person")
	st := s.state()
	equal(t, "ahead and behind", [2]int{st.Ahead, st.Behind}, [2]int{1, 1})
	m, err := s.merge("")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "fast forward", m.FastForward, false)
	equal(t, "file", rg.read("a.txt"), "zero\none\ntwo\nthree\nfour\n")
	equal(t, "log", rg.run("log", "-1", "--format=%s %an"), "Merge branch 'runnel/one' into main Ada")
	equal(t, "status", rg.run("status", "--porcelain"), "")
	if _, err := s.remove(false); err != nil {
		t.Error(err)
	}
}

// A person commits in the project while git merges: here the merge driver does.
func TestCommitDuringMergeIsKept(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Trusted = true
	s := rg.add()
	s.in().put("a.txt", "agent\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	rg.put("a.txt", "person\n")
	rg.run("commit", "--quiet", "--all", "--message", "person")
	driver := filepath.Join(rg.home, "driver")
	rg.write(driver, "unset $(env | sed -n 's/^\\(GIT_[A-Z_]*\\)=.*/\\1/p')\ncd "+rg.folder.Dir+" && echo meanwhile > new.txt && git add new.txt && git commit --quiet -m meanwhile\n")
	rg.run("config", "merge.slow.driver", "sh "+driver)
	rg.put(".git/info/attributes", "a.txt merge=slow\n")
	_, err := s.merge("")
	expect(t, err, runnel.GitFailed, "")
	equal(t, "log", rg.run("log", "-1", "--format=%s"), "meanwhile")
	equal(t, "new file", rg.read("new.txt"), "meanwhile\n")
	equal(t, "status", rg.run("status", "--porcelain"), "")
}

func TestConflictLeavesProjectAsItWas(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	s.in().put("a.txt", "agent\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	rg.put("a.txt", "person\n")
	rg.run("commit", "--quiet", "--all", "--message", "person")
	rg.put("sub/b.txt", "not committed\n")
	before := rg.run("rev-parse", "HEAD") + rg.run("status", "--porcelain=v2") + rg.run("count-objects")
	_, err := s.merge("")
	expect(t, err, runnel.GitFailed, "conflicts in a.txt")
	after := rg.run("rev-parse", "HEAD") + rg.run("status", "--porcelain=v2")
	if !strings.HasPrefix(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	equal(t, "file", rg.read("a.txt"), "person\n")
	for _, name := range []string{"MERGE_HEAD", "index.lock"} {
		equal(t, name, rg.read(".git/"+name), "")
	}
}

// The project has changes that are not committed. A merge that does not touch
// them keeps them; a merge that would overwrite them fails.
func TestMergeKeepsUncommittedChangesOfProject(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	s.in().put("a.txt", "agent\n")
	rg.put("a.txt", "person\n")
	_, err := s.merge("agent")
	expect(t, err, runnel.GitFailed, "a.txt")
	equal(t, "file", rg.read("a.txt"), "person\n")
	equal(t, "log", rg.run("log", "--format=%s"), "first")
	rg.run("checkout", "--quiet", "a.txt")
	rg.put("sub/b.txt", "person\n")
	if _, err := s.merge(""); err != nil {
		t.Fatal(err)
	}
	equal(t, "files", rg.read("a.txt")+rg.read("sub/b.txt"), "agent\nperson\n")
	equal(t, "status", rg.run("status", "--porcelain"), " M sub/b.txt")
}

func TestMergeNeedsBranchAndNoUnfinishedOperation(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	s.in().put("a.txt", "agent\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	rg.run("checkout", "--quiet", "--detach")
	_, err := s.merge("")
	expect(t, err, runnel.GitFailed, "No branch is checked out in the project")
	rg.run("checkout", "--quiet", "main")
	rg.put(".git/MERGE_HEAD", rg.run("rev-parse", "HEAD")+"\n")
	_, err = s.merge("")
	expect(t, err, runnel.GitFailed, "In the project, a merge is not finished")
	rg.run("merge", "--quit")
	s.in().run("checkout", "--quiet", "--detach")
	if _, err := s.merge(""); err != nil {
		t.Error(err)
	}
}

func TestRemovalLosesNothingUnlessDiscarded(t *testing.T) {
	t.Parallel()
	foreign := func(s *site) {
		other := filepath.Join(filepath.Dir(s.home), "other")
		s.run("clone", "--quiet", ".", other)
		s.run("-C", other, "worktree", "add", "--quiet", "../theirs")
		s.write(filepath.Join(other, ".git", "worktrees", "theirs", "gitdir"), filepath.Join(s.w.Root, ".git")+"\n")
		s.in().put(".git", "gitdir: "+filepath.Join(other, ".git", "worktrees", "theirs")+"\n")
	}
	nested := func(s *site) { s.in().run("init", "--quiet", "nested") }
	for name, c := range map[string]struct {
		work func(s *site)
		want string // "": the removal loses nothing
	}{
		"changed file": {func(s *site) { s.in().put("a.txt", "x") }, "a.txt"},
		"file that git skips": {func(s *site) {
			s.in().run("update-index", "--skip-worktree", "a.txt", "sub/b.txt")
			s.in().put("a.txt", "x")
		}, "changes that git was told not to report in a.txt"},
		"file that git assumes unchanged": {func(s *site) {
			s.in().run("update-index", "--assume-unchanged", "a.txt", "sub/b.txt")
			s.in().put("a.txt", "x")
		}, "changes that git was told not to report in a.txt"},
		"removed file that git skips": {func(s *site) {
			s.in().run("update-index", "--skip-worktree", "a.txt", "sub/b.txt")
			if err := os.Remove(filepath.Join(s.w.Root, "a.txt")); err != nil {
				s.t.Fatal(err)
			}
		}, ""},
		"untracked file":    {func(s *site) { s.in().put("new dir/n.txt", "x") }, "new dir/"},
		"nested repository": {nested, "nested/"},
		"commit":            {func(s *site) { s.in().run("commit", "--quiet", "--allow-empty", "--message", "m") }, "1 commit"},
		"detached commit": {func(s *site) {
			s.in().run("checkout", "--quiet", "--detach")
			s.in().run("commit", "--quiet", "--allow-empty", "--message", "m")
			s.in().run("commit", "--quiet", "--allow-empty", "--message", "n")
		}, "2 commits"},
		"unfinished merge": {func(s *site) {
			s.write(filepath.Join(s.folder.Dir, ".git", "worktrees", "one", "MERGE_HEAD"), s.w.Base+"\n")
		}, "an unfinished merge"},
		"commit on another branch": {func(s *site) {
			s.in().run("checkout", "--quiet", "-b", "other")
			s.in().run("commit", "--quiet", "--allow-empty", "--message", "m")
		}, ""},
		"ignored file": {func(s *site) {
			s.put(".git/info/exclude", "node_modules\n")
			s.in().put("node_modules/x", "x")
			expect(s.t, s.git.CheckLoss(s.t.Context(), s.folder, s.w, LoseNothing), runnel.GitFailed, "the ignored files node_modules/")
		}, ""},
		"repository in an ignored folder": {func(s *site) {
			s.put(".git/info/exclude", "forks\n")
			s.in().put("forks/a/x", "x")
			s.in().run("init", "--quiet", "forks/a")
		}, "the repositories in forks/"},
		"lock": {func(s *site) { s.run("worktree", "lock", s.w.Root) }, "the lock"},
		"removed by hand with a commit": {func(s *site) {
			s.in().run("commit", "--quiet", "--allow-empty", "--message", "m")
			if err := os.RemoveAll(s.w.Root); err != nil {
				s.t.Fatal(err)
			}
		}, "1 commit"},
		"removed by hand": {func(s *site) { s.run("worktree", "remove", s.w.Root) }, ""},
		"pointer that leads elsewhere": {func(s *site) {
			s.in().put(".git", "gitdir: /nowhere\n")
		}, "leads to a repository elsewhere"},
		"worktree of another repository": {foreign, "no longer leads"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "untracked file" && name != "commit" {
				testload.TakesLong(t)
			}
			t.Parallel()
			rg := newRig(t)
			rg.t = t
			s := rg.add()
			c.work(s)
			out, err := s.remove(false)
			if c.want == "" {
				if err != nil || len(out.Lost) > 0 {
					t.Fatalf("lost %q: %v", out.Lost, err)
				}
				s.gone()
				return
			}
			expect(t, err, runnel.GitFailed, c.want)
			if name != "removed by hand with a commit" {
				if _, err := os.Lstat(filepath.Join(s.w.Root, "sub", "b.txt")); err != nil {
					t.Errorf("the worktree was changed: %v", err)
				}
			}
			out, err = s.remove(true)
			if err != nil || len(out.Lost) == 0 {
				t.Fatalf("lost %q: %v", out.Lost, err)
			}
			s.gone()
			if strings.Contains(c.want, "commit") { // they can still be found
				rg.run("branch", "rescued", out.Head)
			}
		})
	}
}

func TestStateOfWorktreeThatWasRemovedByHand(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	if err := os.RemoveAll(s.w.Root); err != nil {
		t.Fatal(err)
	}
	st := s.state()
	equal(t, "state", st.State, WorktreeMissing)
	if !strings.Contains(st.Problem, "runnel/one") {
		t.Errorf("problem %q", st.Problem)
	}
	_, err := s.merge("m")
	expect(t, err, runnel.GitFailed, "was removed")
}

func TestRepositoriesWithoutWorktrees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(rg *rig)
		want string
	}{
		"no repository": {func(rg *rig) { _ = os.RemoveAll(filepath.Join(rg.folder.Dir, ".git")) }, "in no git repository"},
		"no commit": {func(rg *rig) {
			_ = os.RemoveAll(filepath.Join(rg.folder.Dir, ".git"))
			rg.run("init", "--quiet")
		}, "no commit yet"},
		"bare repository": {func(rg *rig) {
			bare := filepath.Join(filepath.Dir(rg.home), "bare")
			rg.run("clone", "--quiet", "--bare", ".", bare)
			rg.folder.Dir = bare
		}, "bare"},
		"bare by its settings": {func(rg *rig) { rg.run("config", "core.bare", "true") }, "bare"},
		"folder that is not committed": {func(rg *rig) {
			rg.put("later/file", "x")
			rg.folder.Dir = filepath.Join(rg.folder.Dir, "later")
		}, "does not have the folder later"},
		"branch in the way": {func(rg *rig) { rg.run("branch", "runnel") }, "runnel"},
		"branch exists":     {func(rg *rig) { rg.run("branch", "runnel/one") }, "runnel/one"},
		"folder exists":     {func(rg *rig) { rg.write(rg.worktreeRoot()+"/x", "") }, "cannot be created"},
		"link in place of the worktrees": {func(rg *rig) {
			elsewhere := filepath.Join(filepath.Dir(rg.home), "elsewhere")
			_ = os.Mkdir(elsewhere, 0o700)
			_ = os.Symlink(elsewhere, filepath.Join(rg.folder.Dir, ".git", "worktrees"))
		}, "cannot be added"},
		"link in place of a branch's folder": {func(rg *rig) {
			elsewhere := filepath.Join(filepath.Dir(rg.home), "elsewhere")
			_ = os.Mkdir(elsewhere, 0o700)
			_ = os.Symlink(elsewhere, filepath.Join(rg.folder.Dir, ".git", "refs", "heads", "runnel"))
		}, "is a link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.t = t
			c.make(rg)
			_, err := rg.tryAdd()
			expect(t, err, runnel.GitFailed, c.want)
			if _, err := os.Lstat(filepath.Join(rg.worktreeRoot(), ".git")); err == nil {
				t.Error("the folder of the worktree is left")
			}
		})
	}
}

func TestWorktreeOfFolderBelowRepository(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Dir = filepath.Join(rg.folder.Dir, "sub")
	s := rg.add()
	equal(t, "directory", s.w.Dir, filepath.Join(s.w.Root, "sub"))
	s.in().put("sub/b.txt", "changed\n")
	s.in().run("commit", "--quiet", "--all", "--message", "agent")
	if _, err := s.merge(""); err != nil {
		t.Fatal(err)
	}
	equal(t, "file", rg.read("b.txt"), "changed\n")
	s.in().put("a.txt", "outside\n")
	_, err := s.merge("agent")
	expect(t, err, runnel.GitFailed, "outside of the project's folder: a.txt")
	equal(t, "file outside", rg.read("../a.txt"), "one\ntwo\nthree\n")
}

// The project is a worktree itself. The new worktree belongs to the same
// repository, and a merge adds to the branch of the project.
func TestWorktreeOfWorktree(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	mine := filepath.Join(filepath.Dir(rg.home), "mine")
	rg.run("worktree", "add", "--quiet", "-b", "mine", mine)
	main := *rg
	rg.folder.Dir = mine
	s := rg.add()
	equal(t, "from", s.w.From, "mine")
	s.in().put("a.txt", "agent\n")
	if _, err := s.merge("agent"); err != nil {
		t.Fatal(err)
	}
	equal(t, "file", rg.read("a.txt"), "agent\n")
	equal(t, "file of the main work tree", main.read("a.txt"), "one\ntwo\nthree\n")
	if _, err := s.remove(false); err != nil {
		t.Fatal(err)
	}
	equal(t, "worktrees", strings.Count(main.run("worktree", "list"), "\n"), 1)
}

func TestWorktreeOfSparseCheckout(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put("other/c.txt", "c\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "second")
	rg.run("sparse-checkout", "set", "sub")
	s := rg.add()
	equal(t, "file in", s.in().read("sub/b.txt"), "b\n")
	equal(t, "file out", s.in().read("other/c.txt"), "")
	equal(t, "status", s.in().run("status", "--porcelain"), "")
	s.in().put("sub/b.txt", "changed\n")
	if _, err := s.merge("agent"); err != nil {
		t.Fatal(err)
	}
	equal(t, "file", rg.read("sub/b.txt"), "changed\n")
	equal(t, "tree", rg.run("ls-tree", "-r", "--name-only", "HEAD"), "a.txt\nother/c.txt\nsub/b.txt")
}

func TestWorktreeOfRepositoryWithSubmodule(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg := newRig(t)
	inner := filepath.Join(filepath.Dir(rg.home), "inner")
	rg.run("clone", "--quiet", ".", inner)
	rg.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "module")
	rg.run("commit", "--quiet", "--message", "module")
	s := rg.add()
	equal(t, "status", s.in().run("status", "--porcelain"), "")
	s.in().put("a.txt", "agent\n")
	if _, err := s.merge("agent"); err != nil {
		t.Fatal(err)
	}
	equal(t, "status after the merge", rg.run("status", "--porcelain"), "")
	s.in().run("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	_, err := s.remove(false)
	expect(t, err, runnel.GitFailed, "submodules")
	if _, err := s.remove(true); err != nil {
		t.Fatal(err)
	}
	s.gone()
}

// Another work tree has the branch checked out, so it stays.
func TestRemovalKeepsBranchThatIsCheckedOut(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	s.in().run("checkout", "--quiet", "--detach")
	s.run("checkout", "--quiet", "runnel/one")
	out, err := s.remove(false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "branch", out.Branch, "runnel/one")
	equal(t, "status", s.run("status", "--porcelain", "--branch"), "## runnel/one")
}

func TestWorktreeNeedsNoMessageTooLong(t *testing.T) {
	t.Parallel()
	s := newRig(t).add()
	_, err := s.merge(strings.Repeat("x", maxMessage+1))
	expect(t, err, runnel.InvalidRequest, "message")
}

// git with a worktree of an untrusted folder runs no program that the folder or
// the worktree chooses.
func TestWorktreeRunsNoProgramOfTheRepository(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg, tr := hostileRig(t)
	tr.arm()
	tr.script(filepath.Join(rg.folder.Dir, ".git", "hooks", "post-merge"), "hook-post-merge")
	tr.script(filepath.Join(rg.folder.Dir, ".git", "hooks", "pre-merge-commit"), "hook-pre-merge-commit")
	rg.run("config", "commit.gpgSign", "false")
	_, err := rg.tryAdd()
	expect(t, err, runnel.GitFailed, "core.fsmonitor")
	env := rg.env()
	env[0] = "PATH=" + filepath.Join(rg.worktreeRoot(), "tools") + ":" + filepath.Join(rg.folder.Dir, "bin") + ":" + os.Getenv("PATH")
	rg.git = New(env)
	rg.git.trustCheck = true // an agent may change the folder after the check
	s := rg.add()
	s.write(filepath.Join(s.w.Root, "sub", ".gitattributes"), "* filter=evil diff=evil merge=evil\n")
	s.in().put("a.txt", "one\ntwo\nthree\nfour\n")
	s.in().put("sub/b.txt", "changed\n")
	tr.script(filepath.Join(s.w.Root, "tools", "git"), "git-in-the-worktree")
	commitInProject(rg)
	equal(t, "state", s.state().State, WorktreeReady)
	m, err := s.merge("agent")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "fast forward", m.FastForward, false)
	if _, err := s.remove(false); err != nil {
		t.Error(err)
	}
	if names := tr.sprung(); len(names) > 0 {
		t.Errorf("git ran %q", names)
	}
}

// commitInProject makes a commit in the project without running its traps.
func commitInProject(rg *rig) {
	rg.t.Helper()
	plain := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(rg.t.Context(), "git", args...)
		dir := filepath.Join(filepath.Dir(rg.home), "plain")
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(rg.env(), "GIT_DIR="+dir, "GIT_OBJECT_DIRECTORY="+filepath.Join(rg.folder.Dir, ".git", "objects"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			rg.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	plain("", "init", "--quiet")
	head := strings.TrimSpace(rg.read(".git/refs/heads/main"))
	tree := plain("", "ls-tree", head)
	blob := plain("other\n", "hash-object", "-w", "--stdin")
	made := plain(tree+"\n100644 blob "+blob+"\tzz.txt\n", "mktree")
	rg.put(".git/refs/heads/main", plain("person\n", "commit-tree", made, "-p", head)+"\n")
	rg.put("zz.txt", "other\n")
}
