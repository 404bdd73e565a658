package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/filediff"
	"github.com/runnel-dev/runnel/internal/testload"
)

func TestReviewStageCommitAndRevert(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	equal(t, "a clean folder", rg.files(), "")
	rg.put("a.txt", "one\n2\nthree\n")
	rg.put("sub/new.txt", "x\ny")
	rg.run("mv", "sub/b.txt", "sub/c.txt")
	equal(t, "files", rg.files(), "a.txt unstaged:update, sub/b.txt→sub/c.txt staged:move, sub/new.txt unstaged:create untracked")
	equal(t, "diff", rg.lines("a.txt", Unstaged), " one|-two|+2| three")
	equal(t, "diff of an untracked file", rg.lines("sub/new.txt", Unstaged), "+x|+y")
	moved := rg.diff("sub/c.txt", Staged)
	equal(t, "diff of a moved file", moved.Path+"→"+moved.MovedTo, "sub/b.txt→sub/c.txt")
	st := rg.status()
	equal(t, "branch", st.Branch, "main")
	equal(t, "author", st.Author, "Ada <ada@example.com>")
	equal(t, "lines", *st.Files[0].UnstagedLines, LineCounts{1, 1})

	rg.stage("a.txt", "sub/new.txt")
	equal(t, "after staging", rg.files(), "a.txt staged:update, sub/b.txt→sub/c.txt staged:move, sub/new.txt staged:create")
	rg.unstage("sub/c.txt")
	equal(t, "after unstaging a move", rg.files(), "a.txt staged:update, sub/b.txt unstaged:delete, sub/new.txt staged:create, sub/c.txt unstaged:create untracked")
	rg.put("a.txt", "one\n2\nthree\nfour\n")
	equal(t, "both sides", rg.files(), "a.txt staged:update unstaged:update, sub/b.txt unstaged:delete, sub/new.txt staged:create, sub/c.txt unstaged:create untracked")
	equal(t, "staged side", rg.lines("a.txt", Staged), " one|-two|+2| three")
	equal(t, "unstaged side", rg.lines("a.txt", Unstaged), " one| 2| three|+four")

	made := rg.commit("  Add the number 2\n\nBecause.\n")
	equal(t, "commit", made.Commit, rg.run("rev-parse", "HEAD"))
	equal(t, "message", rg.run("log", "-1", "--format=%B"), "Add the number 2\n\nBecause.\n")
	equal(t, "author of the commit", rg.run("log", "-1", "--format=%an <%ae>"), "Ada <ada@example.com>")
	equal(t, "files of the commit", rg.run("show", "--name-status", "--format="), "M\ta.txt\nA\tsub/new.txt")
	equal(t, "differs", made.Differs, false)
	equal(t, "after the commit", rg.files(), "a.txt unstaged:update, sub/b.txt unstaged:delete, sub/c.txt unstaged:create untracked")

	kept := rg.revert("a.txt", Unstaged).Kept
	equal(t, "reverted", rg.read("a.txt"), "one\n2\nthree\n")
	equal(t, "kept", rg.run("cat-file", "blob", kept), "one\n2\nthree\nfour")
	rg.revert("sub/b.txt", Unstaged)
	equal(t, "restored", rg.read("sub/b.txt"), "b\n")
	rg.revert("sub/c.txt", Unstaged)
	equal(t, "after all reverts", rg.files(), "")
	rg.run("fsck", "--strict")
}

func TestRevertOfStagedFiles(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.run("mv", "a.txt", "moved.txt")
	rg.put("added.txt", "added\n")
	rg.put("sub/b.txt", "B\n")
	rg.run("add", ".")
	equal(t, "files", rg.files(), "added.txt staged:create, a.txt→moved.txt staged:move, sub/b.txt staged:update")
	for _, path := range []string{"added.txt", "moved.txt", "sub/b.txt"} {
		d := rg.diff(path, Staged)
		if _, err := rg.git.Revert(t.Context(), rg.folder, path, d.Seen, false); err != nil { // nothing unstaged is lost
			t.Error(err)
		}
	}
	equal(t, "after all reverts", rg.files(), "")
	equal(t, "moved back", rg.read("a.txt"), "one\ntwo\nthree\n")
}

func TestRevertDoesNotLoseWhatWasNotShown(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put("a.txt", "mine\n")
	seen := rg.diff("a.txt", Unstaged).Seen
	_, err := rg.git.Revert(t.Context(), rg.folder, "a.txt", seen, false)
	expect(t, err, runnel.GitFailed, "not staged")
	rg.put("a.txt", "changed meanwhile\n")
	_, err = rg.git.Revert(t.Context(), rg.folder, "a.txt", seen, true)
	expect(t, err, runnel.ChangesOutdated, "has changed since")
	_, err = rg.git.Revert(t.Context(), rg.folder, "a.txt", "", true)
	expect(t, err, runnel.InvalidRequest, "seen")
	equal(t, "content", rg.read("a.txt"), "changed meanwhile\n")
	expect(t, rg.git.Stage(t.Context(), rg.folder, []Choice{{"a.txt", seen}}, true), runnel.ChangesOutdated, "has changed since")
}

func TestCommitContainsOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put("a.txt", "seen\n")
	rg.stage("a.txt")
	seen := rg.status().Seen
	rg.put("a.txt", "staged meanwhile\n")
	rg.run("add", ".")
	_, err := rg.git.Commit(t.Context(), rg.folder, "commit", seen)
	expect(t, err, runnel.ChangesOutdated, "has changed")
	rg.run("checkout", "--quiet", "-b", "other")
	_, err = rg.git.Commit(t.Context(), rg.folder, "commit", seen)
	expect(t, err, runnel.ChangesOutdated, "has changed")
	equal(t, "commits", rg.run("rev-list", "--count", "HEAD"), "1")
}

func TestCommitIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(rg *rig)
		message string
		code    runnel.Code
		want    string
	}{
		"without a message":   {func(rg *rig) { rg.put("a.txt", "x\n"); rg.run("add", ".") }, " \n", runnel.InvalidRequest, "message"},
		"with a long message": {func(rg *rig) { rg.put("a.txt", "x\n"); rg.run("add", ".") }, strings.Repeat("x", maxMessage+1), runnel.InvalidRequest, "65536"},
		"with nothing staged": {func(rg *rig) { rg.put("a.txt", "x\n") }, "m", runnel.GitFailed, "Nothing is staged"},
		"without an author": {func(rg *rig) {
			rg.write(filepath.Join(rg.home, ".gitconfig"), "")
			rg.put("a.txt", "x\n")
			rg.run("add", ".")
		}, "m", runnel.GitFailed, "user.name"},
		"without a branch":       {func(rg *rig) { rg.run("checkout", "--quiet", "--detach"); rg.put("a.txt", "x\n"); rg.run("add", ".") }, "m", runnel.GitFailed, "No branch"},
		"in an unfinished merge": {func(rg *rig) { rg.put(".git/MERGE_HEAD", rg.run("rev-parse", "HEAD")+"\n") }, "m", runnel.GitFailed, "merge is not finished"},
		"while git has its lock": {func(rg *rig) { rg.put("a.txt", "x\n"); rg.run("add", "."); rg.put(".git/index.lock", "") }, "m", runnel.GitFailed, "Another git"},
	} {
		t.Run(name, func(t *testing.T) {
			rg := newRig(t)
			c.prepare(rg)
			_, err := rg.git.Commit(t.Context(), rg.folder, c.message, rg.status().Seen)
			expect(t, err, c.code, c.want)
			equal(t, "commits", rg.run("rev-list", "--count", "HEAD"), "1")
		})
	}
}

// A session may work in a part of a repository. It sees and commits nothing
// else.
func TestFolderWithinRepository(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	whole := rg.folder
	rg.put("a.txt", "outside\n")
	rg.put("sub/b.txt", "inside\n")
	rg.put("sub/deep/n.txt", "new\n")
	rg.folder.Dir = filepath.Join(whole.Dir, "sub")
	equal(t, "files", rg.files(), "b.txt unstaged:update, deep/n.txt unstaged:create untracked")
	equal(t, "diff", rg.lines("b.txt", Unstaged), "-b|+inside")
	rg.stage("b.txt", "deep/n.txt")
	rg.run("add", "../a.txt")
	equal(t, "elsewhere", rg.status().Elsewhere, 1)
	_, err := rg.git.Commit(t.Context(), rg.folder, "m", rg.status().Seen)
	expect(t, err, runnel.GitFailed, "outside of the session's folder")
	rg.run("reset", "--quiet", "../a.txt")
	rg.commit("inside")
	equal(t, "files of the commit", rg.run("show", "--name-only", "--format="), "sub/b.txt\nsub/deep/n.txt")
	for _, path := range []string{"../a.txt", "/etc/passwd", "", ".", "x/../../a.txt", ".git/config", "deep/.GIT/x", strings.Repeat("x", maxPath+1)} {
		_, err := rg.git.Diff(t.Context(), rg.folder, path, Unstaged, 3)
		expect(t, err, runnel.InvalidRequest, "path")
		expect(t, rg.git.Stage(t.Context(), rg.folder, choices(path), true), runnel.InvalidRequest, "path")
		_, err = rg.git.Revert(t.Context(), rg.folder, path, "x", true)
		expect(t, err, runnel.InvalidRequest, "path")
	}
}

func TestFirstCommit(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Dir = filepath.Join(rg.folder.Dir, "inner")
	rg.put("f", "1\n")
	rg.run("init", "--quiet")
	st := rg.status()
	equal(t, "head", st.Head, "")
	rg.stage("f")
	rg.unstage("f")
	equal(t, "files", rg.files(), "f unstaged:create untracked")
	rg.stage("f")
	rg.commit("first")
	equal(t, "log", rg.run("log", "--format=%s"), "first")
}

func TestKindsOfRepositories(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	change := func(rg *rig) {
		t.Helper()
		rg.put("a.txt", "changed\n")
		rg.stage("a.txt")
		rg.commit("changed here")
		equal(t, "log", rg.run("log", "-1", "--format=%s"), "changed here")
		equal(t, "status as git sees it", rg.run("status", "--porcelain"), "")
	}
	t.Run("a linked work tree", func(t *testing.T) {
		rg := newRig(t)
		rg.run("worktree", "add", "--quiet", "-b", "linked", "../linked")
		rg.folder.Dir = filepath.Join(filepath.Dir(rg.folder.Dir), "linked")
		equal(t, "branch", rg.status().Branch, "linked")
		change(rg)
	})
	t.Run("a submodule", func(t *testing.T) {
		rg := newRig(t)
		inner := filepath.Join(filepath.Dir(rg.folder.Dir), "inner")
		rg.run("clone", "--quiet", ".", inner)
		rg.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "module")
		rg.run("commit", "--quiet", "--message", "module")
		outer := rg.folder
		rg.folder.Dir = filepath.Join(outer.Dir, "module")
		change(rg)
		rg.folder = outer
		equal(t, "the repository above", rg.files(), "module unstaged:update submodule")
		rg.stage("module")
		rg.commit("module moved")
	})
	t.Run("with objects of another repository", func(t *testing.T) {
		rg := newRig(t)
		copied := filepath.Join(filepath.Dir(rg.folder.Dir), "copied")
		rg.run("clone", "--quiet", "--shared", ".", copied)
		rg.folder.Dir = copied
		st := rg.status()
		equal(t, "upstream", st.Upstream, "origin/main")
		change(rg)
		equal(t, "ahead", *rg.status().Ahead, 1)
	})
	t.Run("with packed references and a split index", func(t *testing.T) {
		rg := newRig(t)
		rg.run("pack-refs", "--all")
		rg.run("update-index", "--split-index")
		change(rg)
		var names []string
		for i := range 20 { // from here on, git would write a new shared index
			names = append(names, fmt.Sprintf("new%02d.txt", i))
			rg.put(names[i], "x\n")
		}
		rg.stage(names...)
		rg.run("fsck")
		equal(t, "staged for the user's git", strings.Count(rg.run("diff", "--cached", "--name-only"), "new"), len(names))
	})
	t.Run("with SHA-256", func(t *testing.T) {
		rg := newRig(t)
		rg.folder.Dir = filepath.Join(filepath.Dir(rg.folder.Dir), "sha256")
		rg.put("a.txt", "x\n")
		rg.run("init", "--quiet", "--object-format=sha256")
		rg.stage("a.txt")
		rg.commit("first")
		change(rg)
	})
}

func TestStatesOfFolders(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	plain := filepath.Join(rg.home, "plain")
	rg.write(filepath.Join(plain, "f"), "")
	st, err := rg.git.Status(t.Context(), Folder{Dir: plain})
	if err != nil || st.State != StateNone {
		t.Errorf("no repository: %+v, %v", st, err)
	}
	none := New([]string{"PATH=" + t.TempDir(), "HOME=" + rg.home})
	if st, err := none.Status(t.Context(), rg.folder); err != nil || st.State != StateNoGit {
		t.Errorf("no git: %+v, %v", st, err)
	}
	_, err = rg.git.Diff(t.Context(), Folder{Dir: plain}, "f", Unstaged, 3)
	expect(t, err, runnel.GitFailed, "no git repository")
}

func TestDiffOfUnusualFiles(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put("new.bin", "a\x00b")
	rg.put("large.txt", strings.Repeat("0123456789\n", maxText/10))
	rg.put("a.txt", "one\r\ntwo\nthree")
	if err := os.Chmod(filepath.Join(rg.folder.Dir, "sub/b.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(rg.folder.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	if d := rg.diff("new.bin", Unstaged); !d.Binary || len(d.Hunks) > 0 {
		t.Errorf("binary: %+v", d)
	}
	if d := rg.diff("link", Unstaged); !d.Binary || len(d.Hunks) > 0 {
		t.Errorf("link: %+v", d)
	}
	if d := rg.diff("large.txt", Unstaged); !d.Cut || d.Added == 0 || d.Added > maxText/11 {
		t.Errorf("large: %d lines, cut: %t", d.Added, d.Cut)
	}
	if d := rg.diff("sub/b.txt", Unstaged); d.OldMode != "100644" || d.NewMode != "100755" {
		t.Errorf("mode: %+v", d)
	}
	d := rg.diff("a.txt", Unstaged)
	equal(t, "newline", d.Newline, filediff.NewlineRemoved)
	equal(t, "a line with a carriage return", rg.lines("a.txt", Unstaged), "-one|+one\r| two|-three|+three")
	rg.stage("large.txt", "link", "new.bin")
	rg.put("large.txt", strings.Repeat("abcdefghij\n", maxDiff/8))
	if d := rg.diff("large.txt", Unstaged); !d.Cut || d.Added+d.Removed == 0 {
		t.Errorf("large diff: %d lines, cut: %t", d.Added+d.Removed, d.Cut)
	}
	for _, path := range []string{"link", "new.bin"} {
		rg.revert(path, Staged)
	}
	if _, err := os.Lstat("/etc/passwd"); err != nil {
		t.Fatal(err)
	}
}

// A user may have another name, sign, and exclude other files in some folders. Git
// applies such settings by the place of the git directory.
func TestSettingsOfTheUserForSomeFoldersApply(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.write(filepath.Join(rg.home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[includeIf \"gitdir:"+rg.folder.Dir+"/\"]\n\tpath = work\n")
	program, inside := filepath.Join(rg.home, "sign"), filepath.Join(rg.folder.Dir, "included")
	rg.write(filepath.Join(rg.home, "work"), "[user]\n\temail = ada@work.example\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = "+program+
		"\n[core]\n\texcludesFile = "+filepath.Join(rg.home, "excluded")+"\n[include]\n\tpath = "+inside+"\n")
	rg.write(inside, "[user]\n\tname = Ada Work\n[gpg]\n\tprogram = "+filepath.Join(rg.folder.Dir, "program")+"\n") // as if the folder had the user's home directory
	rg.write(filepath.Join(rg.home, "excluded"), "*.key\nincluded\n")
	rg.write(program, "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho a signature\n")
	if err := os.Chmod(program, 0o700); err != nil { //nolint:gosec // git runs it
		t.Fatal(err)
	}
	rg.put("a.txt", "x\n")
	rg.put("secret.key", "x\n")
	equal(t, "files", len(rg.status().Files), 1)
	rg.stage("a.txt")
	rg.commit("m")
	equal(t, "author", rg.run("log", "-1", "--format=%an %ae %ce"), "Ada Work ada@work.example ada@work.example")
	if c := rg.run("cat-file", "commit", "HEAD"); !strings.Contains(c, "a signature") {
		t.Errorf("the commit is not signed: %s", c)
	}
}
