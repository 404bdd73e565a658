package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
)

// prepareDir makes dir if it is missing and refuses one in which other users
// could read or replace what we keep. It returns its absolute path.
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
		if why.Path != path { // a folder above it
			text = fmt.Sprintf("the data directory %s: %s", path, why)
		}
		return "", runnel.Fail(runnel.StoreUnavailable, text)
	}
	if err != nil {
		return "", dirError(path, err)
	}
	return path, nil
}

// createFile makes an empty file for SQLite, which would make it readable by others.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return dirError(filepath.Dir(path), err)
	}
	return errors.Join(f.Chmod(0o600), f.Close(), syncDir(filepath.Dir(path)))
}

// A lock keeps other servers out of a data directory for as long as it is open.
type lock struct{ file *os.File }

func lockDir(dir string) (lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lock{}, dirError(dir, err)
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errLocked) {
			return lock{}, dirError(dir, err)
		}
		return lock{}, runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf(
			"another runnel server%s uses the data directory %s; stop it or choose another directory", holder(f), dir))
	}
	// As long as any before it, so that a full disk has room for it.
	pid := fmt.Sprintf("%-20d\n", os.Getpid())
	if err := writeAt(f, pid); err != nil && !isFull(err) {
		f.Close()
		return lock{}, dirError(dir, err)
	}
	return lock{f}, nil
}

// Close lets the next server in. The file stays: removing it would let two in.
func (l lock) Close() error { return l.file.Close() }

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// holder names the process that has locked f.
func holder(f *os.File) string {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0) // an empty file: it has just been locked
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
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
