package gitconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A stopped rebase with an exec step runs a program when somebody continues it,
// although the settings are pinned.
func TestStoppedRebaseThatRunsProgramsIsFound(t *testing.T) {
	dir := repo(t)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "y")
	mark := filepath.Join(dir, "ran")
	todo := filepath.Join(dir, ".git", "rebase-merge", "git-rebase-todo")
	env := Pin(t.Context(), []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GIT_SEQUENCE_EDITOR=:", "GIT_EDITOR=:",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a",
	})
	pinned := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd.Run()
	}
	if err := pinned("rebase", "-q", "--keep-empty", "--exec", "false", "HEAD~1"); err == nil {
		t.Fatal("the rebase did not stop")
	}
	if got := found(t, dir); got != "" {
		t.Errorf("a rebase without further programs: found %q", got)
	}
	write(t, todo, "pick 1234567 exec x y\n# exec x y\nlabel x\n")
	if got := found(t, dir); got != "" {
		t.Errorf("steps that run no program: found %q", got)
	}
	for _, step := range []string{"exec touch " + mark, "x\ttouch " + mark, "noop\n \t x touch " + mark + "\r"} {
		write(t, todo, step+"\n")
		if got, want := found(t, dir), ".git/rebase-merge/git-rebase-todo ("+rebaseProblem+")"; got != want {
			t.Errorf("%q: found %q, want %q", step, got, want)
		}
	}
	write(t, todo, "exec touch "+mark+"\n")
	if err := pinned("rebase", "--continue"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the rebase ran nothing, so the test proves nothing")
	}
	if got := found(t, dir); got != "" {
		t.Errorf("after the rebase: found %q", got)
	}
	write(t, filepath.Join(dir, ".git", "rebase-merge"), "a file")
	if got := found(t, dir); got != "" {
		t.Errorf("a file in place of the folder: found %q", got)
	}
}
