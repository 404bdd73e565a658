//go:build linux

package hostile

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// git runs git in the project, as the world's user.
func (w *world) git(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = w.project, w.command().Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// TestRepositoryRunsNothingBeforeItIsTrusted has an agent call git in a
// repository that would run programs: by its configuration, by that of a bare
// repository among its files, by hooks, and by programs of its own in PATH.
func TestRepositoryRunsNothingBeforeItIsTrusted(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		marks := filepath.Join(w.dir, "marks")
		if err := os.Mkdir(marks, 0o700); err != nil {
			t.Fatal(err)
		}
		w.own(marks)
		touch := func(mark string) string { return "touch " + filepath.Join(marks, mark) }
		ran := func() (names []string) {
			t.Helper()
			entries, err := os.ReadDir(marks)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		}
		program := func(path, mark string) {
			t.Helper()
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+touch(mark)+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.own(path)
		}
		w.git("init", "-q", ".")
		w.git("init", "-q", "--bare", "bare")
		w.git("-C", "bare", "config", "core.bare", "false")
		w.git("-C", "bare", "config", "core.worktree", ".")
		program(filepath.Join(w.project, ".git", "hooks", "post-index-change"), "hook")
		program(filepath.Join(w.project, "ls"), "path")
		program(filepath.Join(w.project, "git"), "git")
		w.path = ".:" + w.project
		w.start()

		work := plan{Deltas: 1, Tool: []string{"sh", "-c", "git add -A; git status; (cd bare && git status); ls; echo true > done"}}
		c := w.Watch(w.create())
		defer c.Leave()
		c.End(c.Send(work.prompt()))
		var done bool
		w.file("done", &done)
		if names := ran(); names != nil {
			t.Errorf("of the repository ran %q", names)
		}
		w.killSessions()

		w.git("config", "core.fsmonitor", touch("fsmonitor")+" #")
		w.git("config", "include.path", "more")
		w.git("config", "--file", ".git/more", "filter.evil.clean", touch("filter"))
		w.git("-C", "bare", "config", "core.fsmonitor", touch("bare")+" #")
		var made struct {
			Error problem `json:"error"`
		}
		code, _ := w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made)
		if code != http.StatusUnprocessableEntity {
			t.Errorf("create: %d", code)
		}
		for _, want := range []string{"core.fsmonitor (.git/config)", "filter.evil.clean (.git/more)", "core.fsmonitor (bare/config)", "--trusted-folders " + w.project} {
			if !strings.Contains(made.Error.Message, want) {
				t.Errorf("the refusal lacks %q: %s", want, made.Error.Message)
			}
		}
		if names := ran(); names != nil {
			t.Errorf("of the refused repository ran %q", names)
		}
		w.empty(5 * time.Second)
	})
}
