package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

var (
	errLocked   = errors.New("sqlite: locked")
	errReadOnly = windows.ERROR_WRITE_PROTECT
	errNoSpace  = windows.ERROR_DISK_FULL
	errQuota    = windows.ERROR_DISK_QUOTA_EXCEEDED
	errNotDir   = windows.ERROR_DIRECTORY
)

// lockedByte lies far behind the process id in the file: what is locked cannot
// be read by others.
const lockedByte = 1 << 30

func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// allocated takes it for granted: files are not sparse here unless one asks.
func allocated(fs.FileInfo) bool { return true }

// syncDir does nothing: directories cannot be flushed here, the file system
// journals their names.
func syncDir(string) error { return nil }
