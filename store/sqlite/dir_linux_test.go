package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f with the file access of another user if the test runs as
// root, since root may write everywhere.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// After kill -9, a process that the server was starting may keep the lock until
// it executes its program.
func TestLockOfKilledServerIsAwaited(t *testing.T) {
	dir := ownDir(t)
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(tryLock(f), writeAt(f, fmt.Sprintf("%-20d\n", 1<<22+1))) // larger than every process id
	}
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), Config{Dir: dir})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	for looks := 0; looks < 2; { // the file is open a second time
		select {
		case err := <-opened:
			t.Fatalf("the lock is not awaited: %v", err)
		default:
		}
		looks = 0
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			if path, _ := os.Readlink(fd); path == f.Name() {
				looks++
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestReadOnlyDirectoryIsRefused(t *testing.T) {
	dir, err := os.MkdirTemp("", "runnel-readonly-") // the user nobody cannot enter the parents of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	own := filepath.Join(dir, "own")
	if err := errors.Join(os.Mkdir(own, 0o500), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		wants(t, refused(t, own), own, "not writable")
		wants(t, refused(t, filepath.Join(dir, "new")), "not writable")
	})
	for d, want := range map[string]int{dir: 1, own: 0} {
		if entries, err := os.ReadDir(d); err != nil || len(entries) != want {
			t.Errorf("%s holds %v, %v", d, entries, err)
		}
	}
}

func TestDirectoryOfAnotherUserIsRefused(t *testing.T) {
	dir := filepath.Join(ownDir(t), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		dir = "/" // without root, use a directory that belongs to root
	}
	wants(t, refused(t, dir), "belongs to user", "choose another", "chown")
}
