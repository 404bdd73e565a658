//go:build linux && (amd64 || arm64)

package sqlite

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A place is a path and the file that it led to when it was first looked up.
// The writer looks up a place before every append, so this neither allocates
// nor tells Go's scheduler of the system call: see package rawio.
type place struct {
	path     []byte // ends with a zero byte
	stat     unix.Stat_t
	dev, ino uint64
	known    bool
	seen     unix.Timespec // of a directory: time of its last change, which no program can set; see remember
}

func placeOf(path string) (place, error) {
	c, err := unix.ByteSliceFromString(path)
	return place{path: c}, err
}

// same reports whether the path still leads to the same file.
func (p *place) same() (bool, error) {
	at := unix.AT_FDCWD
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(at), uintptr(unsafe.Pointer(&p.path[0])), uintptr(unsafe.Pointer(&p.stat)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
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

// settled is how old the last change of a directory must be, so that a later
// change has another time. The clock of some file systems is as coarse as two
// seconds.
var settled = 3 * time.Second // a variable for tests

// unchanged reports whether the directory's entries are those that remember
// saw. The last call was that of same.
func (p *place) unchanged() bool { return p.seen != unix.Timespec{} && p.seen == p.stat.Ctim }

// remember records that the directory's entries were checked. The last call was
// that of same, before the check.
func (p *place) remember() {
	p.forget()
	if age := time.Since(time.Unix(p.stat.Ctim.Unix())); age > settled {
		p.seen = p.stat.Ctim
	}
}

func (p *place) forget() { p.seen = unix.Timespec{} }
