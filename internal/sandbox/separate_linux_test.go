package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A work tree need not have its git directory at .git.
func TestSandboxKeepsSettingsOfRepositoriesElsewhereInTheProject(t *testing.T) {
	w := newWorld(t)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "HOME="+w.home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.Mkdir(filepath.Join(w.project, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(w.home, "code", "bare.git")
	git("init", "-q", "--separate-git-dir", filepath.Join(w.project, "deep", "store"), w.project)
	git("init", "-q", "--bare", bare)
	const attack = `
		for f in "$1"/hooks/post-commit "$1"/config; do
			{ echo x >> "$f"; } 2>/dev/null && echo "wrote $f"
		done
		for d in "$1" "$2"; do
			mv "$d" "$d".away 2>/dev/null && echo "moved $d"
		done
		echo x > "$1"/index && echo staged
		mv "$1"/HEAD "$1"/objects "$1"/info 2>/dev/null # so that the next sandbox does not find a repository there
		true
	`
	for dir, store := range map[string]string{w.project: filepath.Join(w.project, "deep", "store"), bare: bare} {
		for range 2 {
			b := w.box("")
			b.Dir, b.Args = dir, []string{"-c", attack, "sh", store, filepath.Join(dir, "deep")}
			if out, code := run(t, b); out != "staged\n" || code != 0 {
				t.Errorf("in %s: exit code %d, output\n%s", dir, code, out)
			}
		}
	}
	for _, name := range []string{"HEAD", "objects"} {
		if err := os.Rename(filepath.Join(bare, "info", name), filepath.Join(bare, name)); err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(bare, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: ../worktrees/tree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	submodule := filepath.Join(bare, "modules", "sub")
	git("init", "-q", "--bare", submodule)
	accepts(t, w.box("true"), map[string]bool{filepath.Join(bare, "hooks"): false, filepath.Join(bare, "objects", "info"): false, tree: true, submodule: true})
	inside := w.box("")
	inside.Dir, inside.Args = submodule, []string{"-c", attack, "sh", submodule, submodule}
	if out, _ := run(t, inside); out != "staged\n" {
		t.Errorf("in the git directory of a submodule:\n%s", out)
	}

	if err := os.WriteFile(filepath.Join(w.project, ".git"), []byte("gitdir: link/store\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep", filepath.Join(w.project, "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.box("true").Command(); err == nil {
		t.Error("a repository behind a link was accepted")
	}
}
