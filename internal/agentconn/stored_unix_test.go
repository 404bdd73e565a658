//go:build unix

package agentconn

import (
	"path/filepath"
	"syscall"
	"testing"
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
