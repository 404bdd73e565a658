package gitconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A crafted is a repository that makes git run a program of its files, or
// overwrite a file elsewhere, although the settings are pinned.
type crafted struct {
	make func(t *testing.T, dir string) // prepares the repository
	git  []string                       // the command
	want string                         // part of the finding
}

// evilAt writes a program to a file below dir, which leaves a mark beside dir.
func evilAt(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	write(t, path, "#!/bin/sh\ntouch "+filepath.Join(filepath.Dir(dir), "mark")+"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// fromMergeTools returns the path of a file relative to the folder in which git
// looks for merge tools.
func fromMergeTools(t *testing.T, path string) string {
	t.Helper()
	rel, err := filepath.Rel(filepath.Join(git(t, "", "--exec-path"), "mergetools"), path)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

// conflict makes the branches base and up, which change the file f differently,
// and checks out base. The branch up has a second commit.
func conflict(t *testing.T, dir string) {
	t.Helper()
	commit := func(name, text string) {
		write(t, filepath.Join(dir, name), text)
		git(t, dir, "add", name)
		git(t, dir, "commit", "-q", "-m", name+" "+text)
	}
	commit("f", "1\n")
	commit("g", "1\n")
	git(t, dir, "branch", "base")
	git(t, dir, "checkout", "-q", "-b", "up")
	commit("f", "2\n")
	commit("g", "2\n")
	git(t, dir, "checkout", "-q", "base")
	commit("f", "3\n")
}

// stops runs a git command that must stop at the conflict in f, and resolves
// the conflict.
func stops(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("git %v did not stop: %s", args, out)
	}
	write(t, filepath.Join(dir, "f"), "4\n")
	git(t, dir, "add", "f")
}

var craftedRepositories = map[string]crafted{
	"steps in the format of a rebase": {func(t *testing.T, dir string) {
		conflict(t, dir)
		write(t, dir+"/h", "1")
		git(t, dir, "add", "h")
		git(t, dir, "commit", "-q", "-m", "h")
		git(t, dir, "config", "rebase.instructionFormat", "%s%nexec "+evilAt(t, dir, "evil"))
	}, []string{"rebase", "-q", "--force-rebase", "HEAD~1"}, "rebase.instructionformat"},
	"option in the quotes of an alias": {func(t *testing.T, dir string) {
		git(t, dir, "config", "alias.st", "'-c' core.fsmonitor="+evilAt(t, dir, "evil")+" status")
	}, []string{"st"}, "alias.st"},
	"path in an alias": {func(t *testing.T, dir string) {
		evilAt(t, dir, "evil")
		write(t, dir+"/git-x/file", "")
		git(t, dir, "config", "alias.st", "x/../evil")
	}, []string{"st"}, "alias.st"},
	"script in place of a tool for differences": {func(t *testing.T, dir string) {
		conflict(t, dir)
		git(t, dir, "config", "diff.tool", fromMergeTools(t, evilAt(t, dir, "evil")))
	}, []string{"difftool", "-y", "HEAD~1"}, "diff.tool"},
	"script in place of a tool for merges": {func(t *testing.T, dir string) {
		conflict(t, dir)
		git(t, dir, "config", "merge.tool", fromMergeTools(t, evilAt(t, dir, "evil")))
	}, []string{"difftool", "-y", "HEAD~1"}, "merge.tool"},
	"commands in the layout of a tool for merges": {func(t *testing.T, dir string) {
		conflict(t, dir)
		stops(t, dir, "merge", "-q", "up")
		git(t, dir, "checkout", "-q", "-m", "f")
		vim := filepath.Join(filepath.Dir(dir), "bin", "vim")
		write(t, vim, "#!/bin/sh\n")
		if err := os.Chmod(vim, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", filepath.Dir(vim)+string(filepath.ListSeparator)+os.Getenv("PATH"))
		git(t, dir, "config", "merge.tool", "vimdiff")
		git(t, dir, "config", "mergetool.vimdiff.layout", "`cd${IFS}..&&touch${IFS}mark`")
	}, []string{"mergetool", "-y"}, "mergetool.vimdiff.layout"},
	"patches elsewhere by their suffix": {func(t *testing.T, dir string) {
		write(t, dir+"/0001-x/file", "")
		git(t, dir, "config", "format.suffix", "/../../mark")
	}, []string{"format-patch", "-q", "--always", "--root", "-1"}, "format.suffix"},
	"patches elsewhere": {func(t *testing.T, dir string) {
		git(t, dir, "config", "format.outputDirectory", "..")
	}, []string{"format-patch", "-q", "--always", "--root", "--numbered-files", "-1"}, "format.outputdirectory"},
	"strategy of a stopped rebase": {func(t *testing.T, dir string) {
		conflict(t, dir)
		evilAt(t, dir, "evil")
		write(t, dir+"/git-merge-x/file", "")
		git(t, dir, "checkout", "-q", "up")
		stops(t, dir, "rebase", "-q", "base")
		write(t, dir+"/.git/rebase-merge/strategy", "x/../evil\n")
	}, []string{"rebase", "--continue"}, ".git/rebase-merge/strategy ("},
	"strategy of a stopped cherry-pick": {func(t *testing.T, dir string) {
		conflict(t, dir)
		evilAt(t, dir, "evil")
		write(t, dir+"/git-merge-x/file", "")
		stops(t, dir, "cherry-pick", "up~1", "up")
		write(t, dir+"/.git/sequencer/opts", "[options]\n\tstrategy = x/../evil\n")
	}, []string{"cherry-pick", "--continue"}, ".git/sequencer/opts ("},
	"file that a stopped series of patches overwrites": {func(t *testing.T, dir string) {
		conflict(t, dir)
		patches := filepath.Join(filepath.Dir(dir), "patches")
		write(t, patches, git(t, dir, "format-patch", "--stdout", "-2", "up")+"\n")
		stops(t, dir, "am", "-q", patches)
		write(t, dir+"/.git/rebase-apply/apply-opt", "'--build-fake=../mark'\n")
		write(t, dir+"/f", "2\n")
		git(t, dir, "add", "f")
	}, []string{"am", "--continue"}, ".git/rebase-apply/apply-opt ("},
}

// TestCraftedRepositoriesAreFound shows that git, with the pinned settings, runs
// a program of each repository or overwrites a file outside of it, and that the
// cause is found.
func TestCraftedRepositoriesAreFound(t *testing.T) {
	testload.TakesLong(t)
	for name, c := range craftedRepositories {
		t.Run(name, func(t *testing.T) {
			dir := repo(t)
			c.make(t, dir)
			if got := found(t, dir); !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			cmd := exec.CommandContext(t.Context(), "git", c.git...)
			cmd.Dir, cmd.Env = dir, Pin(t.Context(), []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GIT_EDITOR=:",
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a",
			})
			out, _ := cmd.CombinedOutput()               // git fails after some of the programs
			for _, name := range []string{"mark", "1"} { // format-patch names its first file 1
				if _, err := os.Stat(filepath.Join(filepath.Dir(dir), name)); err == nil {
					return
				}
			}
			t.Errorf("git changed nothing outside of the repository, so the test proves nothing: %s", out)
		})
	}
}
