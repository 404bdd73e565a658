package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel"
)

// TestFileSizeLimitIsReported runs in a process of its own, whose files may not
// grow.
func TestFileSizeLimitIsReported(t *testing.T) {
	dir := ownDir(t)
	if out, err := child(t, "limited", dir).Output(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := openTest(t, dir, small)
	if n := count(t, s, "s"); n != 1 {
		t.Errorf("%d events after a write error, want the 1 that was acknowledged", n)
	}
	if err := s.Append(t.Context(), "s", 1, done("s", 2)); err != nil {
		t.Errorf("Append to the store opened again: %v", err)
	}
}

// limitedWriter checks the error of a store after a write has failed, and that
// the store never writes again, even after the disk works again.
func limitedWriter(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Dir: dir})
	if err != nil {
		return err
	}
	if err := s.Append(ctx, "s", 0, done("s", 1)); err != nil {
		return err
	}
	wal, err := os.Stat(filepath.Join(dir, "runnel.db-wal"))
	if err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	limit := was
	limit.Cur = uint64(wal.Size()) + 100
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for range 2 {
		if err := wantUnavailable(s.Append(ctx, "s", 1, done("s", 2))); err != nil {
			return err
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := wantUnavailable(s.Append(ctx, "s", 1, done("s", 2))); err != nil {
		return fmt.Errorf("with the disk well again: %w", err)
	}
	if err := wantUnavailable(s.Dequeue(ctx, "s", "t")); err != nil {
		return fmt.Errorf("with the disk well again: %w", err)
	}
	for ev, err := range s.Read(ctx, "s", 0) {
		if err != nil || ev.Seq != 1 {
			return fmt.Errorf("read event %d: %v", ev.Seq, err)
		}
	}
	return s.Close()
}

func wantUnavailable(err error) error {
	if runnel.CodeOf(err) != runnel.StoreUnavailable || runnel.Safe(err).Message != "the disk reported an error; check it, then restart the server" {
		return fmt.Errorf("got %v, want %s", err, runnel.StoreUnavailable)
	}
	return nil
}
