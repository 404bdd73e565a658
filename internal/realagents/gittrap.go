package realagents

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// GitTrap turns the project into a git repository whose hooks create mark
// files. It contains a bare repository whose configuration names a work tree.
func (h Home) GitTrap(t testing.TB) *Trap {
	t.Helper()
	trap := &Trap{t: t, marks: filepath.Join(filepath.Dir(h.Dir), "marks")}
	write(t, filepath.Join(trap.marks, "none"), "")
	trap.git("init", "-q", h.Project)
	for _, hook := range []string{"pre-commit", "post-commit", "post-index-change"} {
		path := filepath.Join(h.Project, ".git", "hooks", hook)
		write(t, path, "#!/bin/sh\ntouch "+trap.mark("hook-"+hook)+"\n")
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(h.Project, "a.txt"), "alpha\n")
	write(t, filepath.Join(h.Project, ".gitattributes"), "*.txt filter=evil diff=evil\n")
	trap.git("init", "-q", "--bare", filepath.Join(h.Project, "bare"))
	for key, value := range map[string]string{"core.bare": "false", "core.worktree": "."} {
		trap.git("-C", filepath.Join(h.Project, "bare"), "config", key, value)
	}
	return trap
}

// Configure sets git settings of the repository in dir that would run programs
// which create mark files. It returns the keys of these settings.
func (tr *Trap) Configure(dir string) []string {
	tr.t.Helper()
	config := filepath.Join(dir, ".git", "config")
	more := filepath.Join(dir, ".git", "more")
	tr.git("config", "--file", config, "include.path", "more")
	tr.git("config", "--file", config, "core.fsmonitor", "touch "+tr.mark("fsmonitor")+" #")
	tr.git("config", "--file", more, "filter.evil.clean", "touch "+tr.mark("filter")+"; cat")
	tr.git("config", "--file", more, "diff.evil.textconv", "touch "+tr.mark("textconv")+"; cat")
	tr.git("config", "--file", more, "alias.st", "!touch "+tr.mark("alias"))
	return []string{"core.fsmonitor", "filter.evil.clean", "diff.evil.textconv", "alias.st"}
}

// mark returns the path of a mark file.
func (tr *Trap) mark(name string) string { return filepath.Join(tr.marks, name) }

// git runs git without the system's and the user's configuration.
func (tr *Trap) git(args ...string) {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
