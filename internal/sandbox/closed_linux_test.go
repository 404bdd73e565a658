package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testexec"
)

// An agent in a sandbox can close a folder on the way to the git directory of a
// submodule, so that the next sandbox does not find it, and open it there.
func TestSandboxKeepsSettingsOfRepositoriesInClosedFolders(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	w := newWorld(t)
	for _, closed := range []string{".git/modules", ".git/modules/libs", ".git/modules/libs/sub"} {
		sub := filepath.Join(w.project, ".git/modules/libs/sub")
		for _, dir := range []string{filepath.Join(w.project, ".git/objects"), filepath.Join(sub, "objects")} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		closed = filepath.Join(w.project, closed)
		attack := "chmod 0700 " + closed + "; { echo x >>" + sub + "/config; } 2>/dev/null && echo wrote; chmod 0100 " + closed
		if out, _ := run(t, w.box(attack)); out != "" {
			t.Errorf("the first agent: %s", out)
		}
		b := w.box(attack)
		if _, _, _, err := b.Command(); err == nil {
			out, _ := run(t, b)
			t.Errorf("%s: the sandbox was made, and its agent: %s", closed, out)
		} else if !strings.Contains(err.Error(), "cannot be listed") {
			t.Error(err)
		}
		if err := os.Chmod(closed, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// An agent can remove its user's permission to enter a further directory of its
// session, and so hide the repository in it from the next sandbox.
func TestSandboxKeepsSettingsOfRepositoriesInDirectoriesThatCannotBeEntered(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	w := newWorld(t)
	dir := filepath.Join(w.home, "code", "lib")
	if err := os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.box("chmod 0700 " + dir + "; { echo x >>" + dir + "/.git/config; } 2>/dev/null && echo wrote; chmod 0600 " + dir)
	b.Dirs = []string{dir}
	if out, _ := run(t, b); out != "" {
		t.Errorf("the first agent: %s", out)
	}
	if _, _, _, err := b.Command(); err == nil {
		out, _ := run(t, b)
		t.Errorf("the sandbox was made, and its agent: %s", out)
	} else if !strings.Contains(err.Error(), "cannot be entered") {
		t.Error(err)
	}
	b.Dirs, b.Allowed = nil, []Allowance{{Path: dir, Write: true}}
	if _, _, _, err := b.Command(); err == nil {
		t.Error("a rule lets the sandbox write the directory")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// The same holds for a git directory to which a file .git leads.
func TestSandboxKeepsSettingsOfSeparateRepositoriesThatCannotBeEntered(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	w := newWorld(t)
	store := filepath.Join(w.project, "deep", "store")
	if err := os.MkdirAll(filepath.Join(store, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(store, "HEAD"): "ref: refs/heads/main\n", filepath.Join(w.project, ".git"): "gitdir: deep/store\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, closed := range []string{store, filepath.Dir(store)} {
		b := w.box("chmod 0700 " + closed + "; { echo x >>" + store + "/config; } 2>/dev/null && echo wrote; chmod 0600 " + closed)
		if out, _ := run(t, b); out != "" {
			t.Errorf("the first agent: %s", out)
		}
		if _, _, _, err := b.Command(); err == nil {
			out, _ := run(t, b)
			t.Errorf("%s: the sandbox was made, and its agent: %s", closed, out)
		} else if !strings.Contains(err.Error(), "cannot be entered") {
			t.Error(err)
		}
		if err := os.Chmod(closed, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
