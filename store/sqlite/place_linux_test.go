//go:build linux && (amd64 || arm64)

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Append looks up only the directory once it has seen the files there. It must
// notice every later change of an entry.
func TestAppendFailsWhenARememberedDirectoryIsRemoved(t *testing.T) {
	defer func(d time.Duration) { settled = d }(settled)
	settled = 0
	appendFailsWhenRemoved(t, func(s *Store) {
		waitForNextTick(t, filepath.Dir(s.writer.path))
		for head := int64(1); head < 3; head++ {
			if err := s.Append(t.Context(), "s", head, delta("s", head+1)); err != nil {
				t.Fatal(err)
			}
		}
		if (s.writer.files.dir.seen == unix.Timespec{}) {
			t.Fatal("the directory is not remembered")
		}
	})
}

// waitForNextTick returns once the clock of the file system shows a later time
// than that of the last change of dir.
func waitForNextTick(t *testing.T, dir string) {
	t.Helper()
	var last, now unix.Stat_t
	if err := unix.Stat(dir, &last); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "clock")
	for now.Ctim.Nano() <= last.Ctim.Nano() {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(other, &now); err != nil {
			t.Fatal(err)
		}
	}
}
