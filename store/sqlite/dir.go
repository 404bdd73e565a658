package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
)

// prepareDir creates dir if it is missing and returns its absolute path. It
// rejects a directory in which other users could read or replace files.
func prepareDir(dir string) (string, error) {
	if dir == "" {
		return "", runnel.Fail(runnel.StoreUnavailable, "no data directory was given; name one")
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", dirError(dir, err)
	}
	err = private.Dir(path)
	if why, ok := errors.AsType[*private.Error](err); ok {
		text := "the data directory " + why.Error()
		if why.Path != path { // the problem is a parent directory
			text = fmt.Sprintf("the data directory %s: %s", path, why)
		}
		return "", runnel.Fail(runnel.StoreUnavailable, text)
	}
	if err != nil {
		return "", dirError(path, err)
	}
	return path, nil
}

// createFile creates an empty file with mode 0600. SQLite would create it
// readable by other users.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return dirError(filepath.Dir(path), err)
	}
	return errors.Join(f.Chmod(0o600), f.Close(), syncDir(filepath.Dir(path)))
}

// A lock prevents other servers from using a data directory while it is open.
type lock struct{ file *os.File }

func lockDir(dir string) (lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lock{}, dirError(dir, err)
	}
	if err := takeLock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errLocked) {
			return lock{}, dirError(dir, err)
		}
		return lock{}, runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf(
			"another runnel server%s uses the data directory %s; stop it or choose another directory", holder(f), dir))
	}
	// The text has a fixed length, so rewriting it needs no new disk space.
	pid := fmt.Sprintf("%-20d\n", os.Getpid())
	if err := writeAt(f, pid); err != nil && !isFull(err) {
		f.Close()
		return lock{}, dirError(dir, err)
	}
	return lock{f}, nil
}

// lockTime is how long takeLock waits for a lock that nobody needs any more. The
// system releases it within milliseconds, on a busy machine within a second.
const lockTime = 5 * time.Second

// takeLock locks f. If the server that has locked it was killed, takeLock waits:
// a process that this server was starting may have inherited the lock, and keeps
// it until it executes its program.
func takeLock(f *os.File) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(lockTime); ; <-tick.C {
		err := tryLock(f)
		if !errors.Is(err, errLocked) || time.Now().After(end) || !holderIsGone(f) {
			return err
		}
	}
}

// Close releases the lock. The file stays: if it were removed, two servers
// could lock two different files of the same name.
func (l lock) Close() error { return l.file.Close() }

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// holder returns the id of the process that locked f as " (process N)", or ""
// if the file does not hold one.
func holder(f *os.File) string {
	if pid, ok := holderPid(f); ok {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// holderIsGone reports whether the process that locked f has ended.
func holderIsGone(f *os.File) bool {
	pid, ok := holderPid(f)
	return ok && isGone(pid)
}

// holderPid returns the id of the process that locked f. ok is false if the
// process has not written it yet.
func holderPid(f *os.File) (pid int, ok bool) {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid, err == nil
}

func dirError(dir string, err error) error {
	why := "cannot be used"
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnly):
		why = "is not writable for this user; change its owner or choose another"
	case isFull(err):
		why = "is on a full disk; free some space and start again"
	case errors.Is(err, fs.ErrExist), errors.Is(err, errNotDir):
		why = "is not a directory; choose another"
	}
	return runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf("the data directory %s %s", dir, why), err)
}
