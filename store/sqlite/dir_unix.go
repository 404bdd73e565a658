//go:build !windows

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	errLocked   = errors.New("sqlite: locked")
	errReadOnly = unix.EROFS
	errNoSpace  = unix.ENOSPC
	errQuota    = unix.EDQUOT
	errNotDir   = unix.ENOTDIR
)

func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// isGone reports whether no process has this id.
func isGone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// allocated reports whether the disk has allocated all blocks of a file.
func allocated(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks*512 >= info.Size()
}

// syncDir flushes dir, so that the names of new files survive a power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
