package audit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// On a full disk, a deletion can still be recorded, because it frees space, and
// the end of a credential or a rule, because its holder or an agent may have
// filled the disk. Other actions cannot.
func TestDeletionsAndRevocationsAreRecordedOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	place := Place{Dir: filepath.Join(disk, "audit"), Head: filepath.Join(t.TempDir(), "head"), Secret: "secret"}
	l, err := Open(Config{Place: place})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; { // until the last block of the log is full
		err = l.Append(Record{Kind: Renamed})
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	for _, kind := range []Action{Revoked, Logout, RuleRemoved} {
		if err := l.Append(Record{Kind: kind, What: "id"}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	for range 100 {
		if err := l.Append(Record{Kind: SessionDeleted, Session: "s"}); err != nil {
			t.Fatalf("a deletion: %v", err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Record{Kind: Renamed}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(place.Dir, reserveName)); err != nil {
		t.Errorf("with free space again: %v", err)
	}
	if r, err := l.Verify(); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
