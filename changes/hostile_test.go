package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// A trap is a set of programs, each of which leaves a mark when it runs.
type trap struct {
	rg  *rig
	dir string
}

func newTrap(rg *rig) *trap {
	tr := &trap{rg, filepath.Join(filepath.Dir(rg.folder.Dir), "marks")}
	if err := os.Mkdir(tr.dir, 0o755); err != nil {
		rg.t.Fatal(err)
	}
	return tr
}

// command returns a shell command that leaves a mark.
func (tr *trap) command(name string) string { return "touch " + filepath.Join(tr.dir, name) }

func (tr *trap) script(path, name string) {
	tr.rg.t.Helper()
	tr.rg.write(path, "#!/bin/sh\n"+tr.command(name)+"\ncat >/dev/null 2>&1 </dev/null\nexit 0\n")
	if err := os.Chmod(path, 0o755); err != nil {
		tr.rg.t.Fatal(err)
	}
}

// sprung returns the names of the programs that ran.
func (tr *trap) sprung() (names []string) {
	tr.rg.t.Helper()
	entries, err := os.ReadDir(tr.dir)
	if err != nil {
		tr.rg.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// arm adds to the repository everything by which it could run a program.
func (tr *trap) arm() {
	rg := tr.rg
	git := filepath.Join(rg.folder.Dir, ".git")
	for _, hook := range []string{
		"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "reference-transaction",
		"post-checkout", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman",
	} {
		tr.script(filepath.Join(git, "hooks", hook), "hook-"+hook)
	}
	set := func(file, key, value string) { rg.run("config", "--file", file, "--add", key, value) }
	config, included := filepath.Join(git, "config"), filepath.Join(git, "included")
	set(config, "include.path", "included")
	set(config, "includeIf.onbranch:**.path", "included")
	set(config, "core.fsmonitor", tr.command("fsmonitor")+" #")
	set(config, "core.pager", tr.command("pager"))
	set(config, "core.editor", tr.command("editor"))
	set(config, "core.askPass", tr.command("askpass"))
	set(config, "core.sshCommand", tr.command("ssh"))
	set(config, "core.alternateRefsCommand", tr.command("alternaterefs"))
	set(config, "gpg.program", filepath.Join(rg.folder.Dir, "gpg"))
	set(config, "gpg.ssh.program", filepath.Join(rg.folder.Dir, "gpg"))
	set(config, "gpg.ssh.defaultKeyCommand", filepath.Join(rg.folder.Dir, "gpg"))
	set(config, "diff.external", tr.command("external")+" #")
	set(config, "uploadpack.packObjectsHook", tr.command("packobjects"))
	set(config, "remote.origin.url", "ext::"+tr.command("ext"))
	set(config, "remote.origin.promisor", "true")
	set(config, "extensions.partialClone", "origin")
	set(config, "protocol.allow", "always")
	set(config, "credential.helper", "!"+tr.command("credential"))
	set(config, "gc.auto", "1")
	set(config, "maintenance.auto", "true")
	set(config, "status.submoduleSummary", "true")
	set(config, "diff.submodule", "log")
	set(config, "hook.evil.event", "pre-commit")
	set(config, "hook.evil.command", tr.command("config-hook"))
	set(config, "alias.status", "!"+tr.command("alias"))
	for _, key := range []string{"filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.evil.command", "merge.evil.driver"} {
		set(included, key, tr.command(key)+"; cat #")
	}
	set(included, "filter.evil2.process", tr.command("filter-process"))
	set(included, "filter.evil.required", "true")
	set(included, "core.hooksPath", filepath.Join(git, "hooks"))
	tr.script(filepath.Join(rg.folder.Dir, "gpg"), "gpg")
	rg.put(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n*.two filter=evil2 diff=evil\n")
	rg.put(".git/info/attributes", "* diff=evil filter=evil\n")
	tr.script(filepath.Join(rg.folder.Dir, "bin", "git"), "git-in-the-folder")
}

// A submodule and objects elsewhere belong to the repository before it is armed,
// because git itself must be able to create them.
func hostileRig(t *testing.T) (*rig, *trap) {
	rg := newRig(t)
	tr := newTrap(rg)
	inner := filepath.Join(filepath.Dir(rg.folder.Dir), "inner")
	rg.run("clone", "--quiet", ".", inner)
	rg.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "module")
	rg.put("f.two", "2\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "module")
	copied := filepath.Join(filepath.Dir(rg.folder.Dir), "copied")
	rg.run("clone", "--quiet", "--shared", "--no-local", ".", copied)
	rg.put(".git/objects/info/alternates", filepath.Join(copied, ".git", "objects")+"\n")
	module := filepath.Join(rg.folder.Dir, ".git", "modules", "module", "config")
	rg.run("config", "--file", module, "core.fsmonitor", tr.command("fsmonitor-of-the-submodule")+" #")
	rg.write(filepath.Join(rg.folder.Dir, "module", "new.txt"), "new\n")
	return rg, tr
}

// work does everything that a client can do, and returns the errors.
func work(rg *rig) (errs []error) {
	ctx := rg.t.Context()
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	rg.put("a.txt", "one\nchanged\n")
	rg.put("f.two", "changed\n")
	rg.put("new.txt", "new\n")
	st, err := rg.git.Status(ctx, rg.folder)
	note(err)
	if st.State != StateReady {
		return append(errs, failed(st.Problem))
	}
	for _, path := range []string{"a.txt", "f.two", "new.txt"} {
		d, err := rg.git.Diff(ctx, rg.folder, path, Unstaged, 3)
		note(err)
		note(rg.git.Stage(ctx, rg.folder, []Choice{{path, d.Seen}}, true))
		_, err = rg.git.Diff(ctx, rg.folder, path, Staged, maxContext)
		note(err)
	}
	note(rg.git.Stage(ctx, rg.folder, choices("new.txt"), false))
	note(rg.git.Stage(ctx, rg.folder, choices("new.txt"), true))
	st, err = rg.git.Status(ctx, rg.folder)
	note(err)
	_, err = rg.git.Commit(ctx, rg.folder, "a commit", st.Seen)
	note(err)
	rg.put("a.txt", "to be reverted\n")
	rg.put("late.txt", "to be removed\n")
	for _, path := range []string{"a.txt", "late.txt"} {
		d, err := rg.git.Diff(ctx, rg.folder, path, Unstaged, 3)
		note(err)
		_, err = rg.git.Revert(ctx, rg.folder, path, d.Seen, true)
		note(err)
	}
	return errs
}

func TestFolderWithProgramsIsRefused(t *testing.T) {
	t.Parallel()
	rg, tr := hostileRig(t)
	tr.arm()
	st := rg.status()
	equal(t, "state", st.State, StateRefused)
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean"} {
		if !strings.Contains(st.Problem, key) {
			t.Errorf("the problem does not name %s: %s", key, st.Problem)
		}
	}
	_, err := rg.git.Diff(t.Context(), rg.folder, "a.txt", Unstaged, 3)
	expect(t, err, runnel.GitFailed, "core.fsmonitor")
	expect(t, rg.git.Stage(t.Context(), rg.folder, choices("a.txt"), true), runnel.GitFailed, "core.fsmonitor")
	_, err = rg.git.Commit(t.Context(), rg.folder, "m", "x")
	expect(t, err, runnel.GitFailed, "core.fsmonitor")
	_, err = rg.git.Revert(t.Context(), rg.folder, "a.txt", "x", true)
	expect(t, err, runnel.GitFailed, "core.fsmonitor")
	if names := tr.sprung(); len(names) > 0 {
		t.Errorf("git ran %q", names)
	}
}

// An agent may change the folder after its check. Even then git runs nothing
// that the folder chooses.
func TestProgramsThatAppearAfterTheCheckDoNotRun(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg, tr := hostileRig(t)
	tr.arm()
	rg.git.trustCheck = true
	if errs := work(rg); len(errs) > 0 {
		t.Errorf("got %v", errs)
	}
	if names := tr.sprung(); len(names) > 0 {
		t.Errorf("git ran %q", names)
	}
	rg.write(filepath.Join(rg.folder.Dir, ".git", "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
	for _, hook := range tr.hooks() {
		if err := os.Remove(hook); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "commit", rg.run("log", "-1", "--format=%s", "--name-only"), "a commit\n\na.txt\nf.two\nnew.txt")
	if got := rg.files(); strings.Contains(got, "a.txt") || strings.Contains(got, "late.txt") {
		t.Errorf("after the work: %s", got)
	}
}

// An agent may change a submodule after the check of the folder. Staging the
// submodule, or removing it from the index, then runs no program either.
func TestProgramsOfSubmoduleDoNotRun(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg, tr := hostileRig(t)
	stage := func(staged bool) {
		t.Helper()
		if err := rg.git.Stage(t.Context(), rg.folder, choices("module"), staged); err != nil {
			t.Error(err)
		}
		if names := tr.sprung(); len(names) > 0 {
			t.Fatalf("git ran %q", names)
		}
	}
	module := filepath.Join(rg.folder.Dir, "module")
	rg.run("-C", module, "config", "--unset-all", "core.fsmonitor")
	rg.put("module/a.txt", "committed in the submodule\n")
	rg.run("-C", module, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "--all", "--message", "m")
	arm := func() {
		rg.put("module/a.txt", "changed\n")
		rg.put(".git/modules/module/info/attributes", "* filter=evil\n")
		rg.run("-C", module, "config", "filter.evil.clean", tr.command("filter-of-the-submodule")+"; cat #")
	}
	rg.git.trustCheck = true
	stage(true)
	equal(t, "staged", rg.files(), "module staged:update submodule")
	arm()
	stage(true) // the staged commit is the one of the submodule, so git add would look for changes within
	stage(false)
	equal(t, "unstaged", rg.files(), "module unstaged:update submodule")
	stage(true)
	rg.put(".git/HEAD", "ref: refs/heads/unborn\n")
	stage(false)
}

// Another user may have created the folders in the cache, if that is in a folder
// that everybody can write to, and could replace a private directory there.
func TestPrivateDirectoryIsNotInFolderThatOthersCanChange(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the cache is elsewhere, or files have no modes")
	}
	rg := newRig(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for _, name := range []string{"runnel/git", "runnel"} {
		dir := filepath.Join(cache, filepath.FromSlash(name))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := rg.git.Status(t.Context(), rg.folder); runnel.CodeOf(err) != runnel.GitFailed || !strings.Contains(err.Error(), "cache") {
			t.Errorf("others can change %s: %v", dir, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rg.status()
}

// Agents in a sandbox may write to the system's folder for temporary files. A
// program that changes what it finds there does not change what git runs.
func TestPrivateDirectoryIsNotInSharedFolder(t *testing.T) {
	shared := t.TempDir()
	t.Setenv("TMPDIR", shared)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	rg := newRig(t)
	tr := newTrap(rg)
	rg.put(".gitattributes", "*.txt filter=evil\n")
	rg.put("a.txt", "changed\n")
	setting := "[filter \"evil\"]\n\tclean = \"" + tr.command("filter") + "; cat #\"\n"
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			found, _ := filepath.Glob(filepath.Join(shared, "*", "config"))
			for _, path := range found {
				if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err == nil {
					_, _ = f.WriteString(setting)
					_ = f.Close()
				}
			}
		}
	}()
	for range 3 {
		rg.status()
		rg.stage("a.txt")
	}
	close(stop)
	<-done
	if names := tr.sprung(); len(names) > 0 {
		t.Errorf("git ran %q", names)
	}
}

func (tr *trap) hooks() []string {
	paths, err := filepath.Glob(filepath.Join(tr.rg.folder.Dir, ".git", "hooks", "*"))
	if err != nil {
		tr.rg.t.Fatal(err)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, ".sample") })
}

// The traps of this file work: the user's own git springs them.
func TestTrapsWork(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg, tr := hostileRig(t)
	tr.arm()
	rg.put("a.txt", "changed\n")
	rg.run("-c", "extensions.partialClone=", "status")
	rg.run("-c", "filter.evil2.required=false", "diff")
	names := tr.sprung()
	for _, want := range []string{"fsmonitor", "diff.evil.command", "filter.evil.clean"} {
		if !slices.Contains(names, want) {
			t.Errorf("git ran only %q", names)
		}
	}
}

// In a trusted folder a commit runs the hooks, and a hook can prevent it. What
// only shows a change runs nothing.
func TestHooksRunInTrustedFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	tr := newTrap(rg)
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit"} {
		tr.script(filepath.Join(rg.folder.Dir, ".git", "hooks", hook), hook)
	}
	rg.run("config", "diff.external", tr.command("external")+" #")
	rg.run("config", "diff.evil.textconv", tr.command("textconv")+"; cat #")
	rg.put(".gitattributes", "*.txt diff=evil\n")
	equal(t, "untrusted", rg.status().State, StateRefused)
	rg.folder.Trusted = true
	if errs := work(rg); len(errs) > 0 && !strings.Contains(errs[0].Error(), "f.two") {
		t.Errorf("got %v", errs)
	}
	equal(t, "programs", strings.Join(tr.sprung(), " "), "commit-msg post-commit pre-commit")
	st := rg.status()
	equal(t, "hooks", st.Hooks, true)
	equal(t, "skipped", st.Skipped, false)

	rg.write(filepath.Join(rg.folder.Dir, ".git", "hooks", "pre-commit"), "#!/bin/sh\necho the tests fail >&2\nexit 1\n")
	rg.put("a.txt", "not good\n")
	rg.stage("a.txt")
	_, err := rg.git.Commit(t.Context(), rg.folder, "m", rg.status().Seen)
	expect(t, err, runnel.GitFailed, "the tests fail")
	rg.write(filepath.Join(rg.folder.Dir, ".git", "hooks", "pre-commit"), "#!/bin/sh\necho formatted > a.txt; git add a.txt\n")
	equal(t, "differs", rg.commit("m").Differs, true)
}

func TestSkippedHooksAreReported(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	tr := newTrap(rg)
	tr.script(filepath.Join(rg.folder.Dir, ".git", "hooks", "pre-commit"), "pre-commit")
	st := rg.status()
	if st.State != StateReady || !st.Skipped || st.Hooks {
		t.Errorf("got %+v", st)
	}
	rg.put("a.txt", "x\n")
	rg.stage("a.txt")
	equal(t, "hooks", rg.commit("m").Hooks, false)
	if names := tr.sprung(); len(names) > 0 {
		t.Errorf("git ran %q", names)
	}
}

// Links by which git would read or write elsewhere.
func TestLinksAreNotFollowed(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	link := func(to, path string) func(rg *rig) {
		return func(rg *rig) {
			path := filepath.Join(rg.folder.Dir, path)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := t.TempDir()
	for name, prepare := range map[string]func(rg *rig){
		"the git directory": func(rg *rig) {
			if err := os.Rename(filepath.Join(rg.folder.Dir, ".git"), filepath.Join(elsewhere, "moved")); err != nil {
				t.Fatal(err)
			}
			link(filepath.Join(elsewhere, "moved"), ".git")(rg)
		},
		"a file that points to another repository": func(rg *rig) {
			other := newRig(t)
			if err := os.RemoveAll(filepath.Join(rg.folder.Dir, ".git")); err != nil {
				t.Fatal(err)
			}
			rg.put(".git", "gitdir: "+filepath.Join(other.folder.Dir, ".git")+"\n")
		},
		"a git directory of its own with the references of another repository": func(rg *rig) {
			other := newRig(t)
			if err := os.Rename(filepath.Join(rg.folder.Dir, ".git"), filepath.Join(rg.folder.Dir, "own")); err != nil {
				t.Fatal(err)
			}
			rg.put("own/gitdir", "../.git\n")
			rg.put("own/commondir", filepath.Join(other.folder.Dir, ".git")+"\n")
			rg.put(".git", "gitdir: own\n")
		},
		"a git directory with the references of another repository": func(rg *rig) {
			rg.put(".git/commondir", filepath.Join(newRig(t).folder.Dir, ".git")+"\n")
		},
		"a folder of submodules that leads to another repository": func(rg *rig) {
			other := newRig(t)
			link(filepath.Dir(other.folder.Dir), ".git/modules")(rg)
			rg.put("sub/.git", "gitdir: "+filepath.Join(other.folder.Dir, ".git")+"\n")
			rg.folder.Dir = filepath.Join(rg.folder.Dir, "sub")
		},
		"the index":      link(filepath.Join(elsewhere, "index"), ".git/index"),
		"the branches":   link(elsewhere, ".git/refs/heads"),
		"the references": link(elsewhere, ".git/refs"),
		"the objects":    link(elsewhere, ".git/objects"),
	} {
		t.Run(name, func(t *testing.T) {
			rg := newRig(t)
			prepare(rg)
			st := rg.status()
			if st.State != StateRefused || !strings.Contains(st.Problem, "trusted folders only") {
				t.Errorf("got %s: %s", st.State, st.Problem)
			}
		})
	}
	t.Run("the branch", func(t *testing.T) {
		rg := newRig(t)
		target := filepath.Join(elsewhere, "branch")
		rg.write(target, rg.run("rev-parse", "HEAD")+"\n")
		link(target, ".git/refs/heads/main")(rg)
		rg.put("a.txt", "x\n")
		rg.stage("a.txt")
		_, err := rg.git.Commit(t.Context(), rg.folder, "m", rg.status().Seen)
		expect(t, err, runnel.GitFailed, "is a link")
	})
	t.Run("a branch that stands for another reference", func(t *testing.T) {
		rg := newRig(t)
		link(elsewhere, ".git/refs/remotes")(rg)
		target := filepath.Join(elsewhere, "target")
		rg.write(target, rg.run("rev-parse", "HEAD")+"\n")
		rg.put(".git/refs/heads/main", "ref: refs/remotes/target\n")
		rg.put("a.txt", "x\n")
		rg.stage("a.txt")
		_, err := rg.git.Commit(t.Context(), rg.folder, "m", rg.status().Seen)
		expect(t, err, runnel.GitFailed, "stands for another reference")
	})
	t.Run("a folder of objects", func(t *testing.T) {
		rg := newRig(t)
		entries, err := os.ReadDir(filepath.Join(rg.folder.Dir, ".git", "objects"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 256 {
			name := fmt.Sprintf("%02x", i)
			if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name }) {
				link(elsewhere, ".git/objects/"+name)(rg)
			}
		}
		rg.put("a.txt", "x\n")
		err = rg.git.Stage(t.Context(), rg.folder, []Choice{{Path: "a.txt"}}, true)
		expect(t, err, runnel.GitFailed, "is a link")
		_, err = rg.git.Revert(t.Context(), rg.folder, "a.txt", "x", true)
		expect(t, err, runnel.GitFailed, "is a link")
		_, err = rg.git.Commit(t.Context(), rg.folder, "m", "x")
		expect(t, err, runnel.GitFailed, "is a link")
	})
	t.Run("a reference that is no branch", func(t *testing.T) {
		rg := newRig(t)
		link(elsewhere, ".git/refs/other")(rg)
		rg.write(filepath.Join(elsewhere, "ref"), rg.run("rev-parse", "HEAD")+"\n")
		rg.put(".git/HEAD", "ref: refs/other/ref\n")
		rg.put("a.txt", "x\n")
		rg.stage("a.txt")
		_, err := rg.git.Commit(t.Context(), rg.folder, "m", rg.status().Seen)
		expect(t, err, runnel.GitFailed, "names no branch")
	})
	t.Run("a branch outside of the repository", func(t *testing.T) {
		rg := newRig(t)
		outside := filepath.Join(filepath.Dir(rg.folder.Dir), "outside")
		rg.put(".git/refs/heads/main", "")
		if err := os.Remove(filepath.Join(rg.folder.Dir, ".git", "refs", "heads", "main")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"../../../../outside", "a/../../../../../outside", "./x", "a//b", ".x", "x.lock", "x\ny", "x y", "a@{b", "-x/.."} {
			rg.put(".git/HEAD", "ref: refs/heads/"+name+"\n")
			_, err := rg.git.Commit(t.Context(), rg.folder, "m", "seen")
			expect(t, err, runnel.GitFailed, "HEAD of the repository")
			if _, err := rg.git.Status(t.Context(), rg.folder); err == nil {
				t.Errorf("HEAD names %q, and git runs", name)
			}
		}
		if _, err := os.Lstat(outside); err == nil {
			t.Error("a file outside was written")
		}
	})
	t.Run("the log of the branch", func(t *testing.T) {
		rg := newRig(t)
		target := filepath.Join(elsewhere, "profile")
		rg.write(target, "mine\n")
		link(target, ".git/logs/refs/heads/main")(rg)
		link(target, ".git/logs/HEAD")(rg)
		rg.put("a.txt", "x\n")
		rg.stage("a.txt")
		rg.commit("m; a command")
		if b, err := os.ReadFile(target); err != nil || string(b) != "mine\n" {
			t.Errorf("got %q, %v", b, err)
		}
	})
	t.Run("a folder of the work tree", func(t *testing.T) {
		rg := newRig(t)
		secret := filepath.Join(elsewhere, "keys")
		rg.write(filepath.Join(secret, "b.txt"), "a secret\n")
		link(secret, "sub")(rg)
		for _, side := range []Side{Staged, Unstaged} {
			if d, err := rg.git.Diff(t.Context(), rg.folder, "sub/b.txt", side, 3); err == nil && strings.Contains(strings.Join(linesOf(d), ""), "secret") {
				t.Errorf("%s: %v", side, linesOf(d))
			}
		}
		if _, err := rg.git.Revert(t.Context(), rg.folder, "sub/b.txt", "absent", true); err == nil {
			t.Log("the deleted file was restored")
		}
		if b, err := os.ReadFile(filepath.Join(secret, "b.txt")); err != nil || string(b) != "a secret\n" {
			t.Errorf("the file behind the link: %q, %v", b, err)
		}
	})
}

func linesOf(d Diff) (out []string) {
	for _, h := range d.Hunks {
		out = append(out, h.Lines...)
	}
	return out
}

// Names of files cannot be taken for options or patterns.
func TestUnusualNames(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	rg := newRig(t)
	names := []string{"--output=x", ":(exclude)a.txt", "*.txt", "a\tb", "ü é", "q\"uote", "new\nline", " space "}
	for _, n := range names {
		rg.put(n, "content of "+n+"\n")
	}
	for _, n := range names {
		if d := rg.diff(n, Unstaged); d.Added == 0 {
			t.Errorf("%q: %+v", n, d)
		}
		rg.stage(n)
		if d := rg.diff(n, Staged); d.Added == 0 {
			t.Errorf("%q, staged: %+v", n, d)
		}
	}
	equal(t, "staged files", len(rg.status().Files), len(names))
	for _, n := range names {
		rg.revert(n, Staged)
	}
	equal(t, "after all reverts", rg.files(), "")
}
