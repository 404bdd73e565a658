//go:build unix

package files

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// Opening a pipe would block the request.
func TestPipesAreNotOpened(t *testing.T) {
	p := newProject(t, "a.txt")
	if err := syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(p.dir, ".gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(t.Context(), "pipe", 0, 0); !errors.Is(err, ErrNoFile) {
		t.Errorf("read: got %v", err)
	}
	if _, err := p.List("pipe"); !errors.Is(err, ErrNotFound) {
		t.Errorf("list: got %v", err)
	}
	if got := p.completed(t, ""); len(got) != 1 {
		t.Errorf("completed: %q", got)
	}
	l, err := p.List("")
	if err != nil || len(l.Entries) != 3 || l.Entries[2].Kind != KindOther {
		t.Errorf("got %+v, %v", l, err)
	}
}
