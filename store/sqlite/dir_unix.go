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

// allocated reports whether all of a file has its place on the disk.
func allocated(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks*512 >= info.Size()
}

// syncDir makes the names of new files in dir survive the loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
