//go:build unix

package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An agent can write in the data directory. Neither a pipe nor a link there leads
// a starting server elsewhere.
func TestHiddenListIsReadFromRegularFileOnly(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		dir := t.TempDir()
		if err := place(filepath.Join(dir, HiddenFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := openHidden(dir, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
	if h, err := openHidden(t.TempDir(), slog.New(slog.DiscardHandler)); err != nil || h.isHidden("a:b") {
		t.Errorf("without a list: %v", err)
	}
}
