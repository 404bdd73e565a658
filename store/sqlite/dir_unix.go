//go:build !windows

package sqlite

import (
	"errors"
	"fmt"
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

func refuseAccess(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d and not to us, user %d; change its owner or choose another", st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Sprintf("can be written by others (mode %04o); run chmod 700 on it", info.Mode().Perm())
	}
	return ""
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
