package gateway

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/internal/sandbox"
)

// A crash can interrupt the removal of a worktree once its folder has got
// another name.
func TestInterruptedRemovalsOfWorktreesAreFinished(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	all := sandbox.Worktrees(data)
	outside := filepath.Join(t.TempDir(), "outside")
	add := func(name string) {
		t.Helper()
		dir := filepath.Join(all, name, "cache")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o400); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	similar := "project.removed-mistake-" + shortID(uuid.Must(uuid.NewV7()).String()) // a worktree of a project with such a name
	add("project-01234567.removed-" + rand.Text())
	add(similar + ".removed-" + rand.Text())
	add("project-01234567")
	add(similar)
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	link := "link.removed-" + rand.Text()
	if err := os.Symlink(outside, filepath.Join(all, link)); err != nil {
		t.Fatal(err)
	}
	closeIt(t, newDisk(t).open(t, func(c *Config) { c.DataDir = data })) // closing waits for the removals
	entries, err := os.ReadDir(all)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if len(left) != 3 || left[0] != link || left[1] != "project-01234567" || left[2] != similar {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}
