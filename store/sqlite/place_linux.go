//go:build linux && (amd64 || arm64)

package sqlite

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A place is a path and the file that it led to when it was first looked up.
// The writer looks up its files before every append, so this does not allocate.
type place struct {
	path     []byte // ends with a zero byte
	stat     unix.Stat_t
	dev, ino uint64
	known    bool
}

func placeOf(path string) (place, error) {
	c, err := unix.ByteSliceFromString(path)
	return place{path: c}, err
}

// same reports whether the path still leads to the same file.
func (p *place) same() (bool, error) {
	at := unix.AT_FDCWD
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(at), uintptr(unsafe.Pointer(&p.path[0])), uintptr(unsafe.Pointer(&p.stat)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return false, errno
		}
		if !p.known {
			p.dev, p.ino, p.known = p.stat.Dev, p.stat.Ino, true
		}
		return p.dev == p.stat.Dev && p.ino == p.stat.Ino, nil
	}
}
