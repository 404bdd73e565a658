//go:build unix

package agentconn

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testload"
)

func TestStoredFilesSkipPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, dir, "*.jsonl"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if _, err := ReadEnds(dir, pipe, 10, 10); err == nil {
		t.Error("a pipe was read")
	}
}

// Opening a pipe blocks until another process opens its other end.
func TestPipesInPlaceOfStoredFoldersDoNotBlock(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at, pattern := range map[string]string{pipe: "*.jsonl", dir: "pipe/*.jsonl"} {
			if got := stored(t, at, pattern); len(got) != 0 {
				t.Errorf("%+v", got)
			}
		}
		if _, err := ReadEnds(pipe, filepath.Join(pipe, "x"), 10, 10); err == nil {
			t.Error("a pipe was read")
		}
		if err := checkDir(pipe); err == nil {
			t.Error("a pipe is a directory")
		}
		s := &surroundings{dir: dir}
		if err := os.Symlink(pipe, filepath.Join(dir, keptFile)); err != nil {
			t.Error(err)
		}
		if _, err := s.readKept(); err == nil {
			t.Error("a pipe has what an earlier process kept")
		}
	}()
	select {
	case <-done:
	case <-time.After(testload.Room(5 * time.Second)):
		t.Fatal("it waits for the other end of the pipe")
	}
}
