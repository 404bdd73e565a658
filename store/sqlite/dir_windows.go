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

// lockedByte is an offset far beyond the process id in the file. On Windows
// other processes cannot read locked bytes.
const lockedByte = 1 << 30

func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockedByte})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// isGone reports whether no process has this id. No process inherits the lock
// here, so nobody needs to know.
func isGone(int) bool { return false }

// allocated always returns true: files on Windows are not sparse by default.
func allocated(fs.FileInfo) bool { return true }

// syncDir does nothing. Windows cannot flush directories; the file system
// journals file names.
func syncDir(string) error { return nil }
