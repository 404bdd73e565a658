package rawio

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A File writes to a file whose writes usually return at once, because they
// only change pages in memory. After a write that took longer than slowWrite,
// it uses ordinary system calls for slowFor.
type File struct {
	*os.File

	mu   sync.Mutex // guards the following fields
	raw  syscall.RawConn
	slow time.Time // until then, ordinary system calls are used

	// The arguments and results of write, which is stored so that no call
	// allocates a closure.
	write func(fd uintptr)
	p     []byte
	off   int64
	n     int
	err   error
}

const (
	slowWrite = time.Millisecond
	slowFor   = time.Second
)

// NewFile returns a File that writes to f.
func NewFile(f *os.File) *File {
	w := &File{File: f}
	w.raw, w.err = f.SyscallConn()
	w.write = func(fd uintptr) { w.n, w.err = WriteAt(fd, w.p, w.off) }
	return w
}

// WriteAt implements [io.WriterAt].
func (w *File) WriteAt(p []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	if w.raw == nil || began.Before(w.slow) {
		return w.File.WriteAt(p, off)
	}
	w.p, w.off, w.n, w.err = p, off, 0, nil
	if err := w.raw.Control(w.write); err != nil {
		return 0, err
	}
	n, err := w.n, w.err
	w.p = nil
	if time.Since(began) > slowWrite {
		w.slow = time.Now().Add(slowFor)
	}
	return n, err
}

// WriteAt writes all of p at an offset. The file must be one whose writes return
// at once, such as a memfd; for others there is [File].
func WriteAt(fd uintptr, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		some, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p[n:]))), uintptr(len(p)-n), uintptr(off)+uintptr(n), 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return n, os.NewSyscallError("pwrite", errno)
		case some == 0:
			return n, io.ErrUnexpectedEOF
		default:
			n += int(some)
		}
	}
	return n, nil
}

// Receive reads what a socket has, with the flags of recv(2). It never waits:
// without data it returns EAGAIN, and 0 at the end.
func Receive(socket uintptr, p []byte, flags int) (int, error) {
	return transfer(unix.SYS_RECVFROM, socket, p, flags)
}

// Send writes what a socket takes without waiting, which may be less than p.
// With a full socket it returns EAGAIN.
func Send(socket uintptr, p []byte) (int, error) {
	return transfer(unix.SYS_SENDTO, socket, p, unix.MSG_NOSIGNAL)
}

func transfer(call, socket uintptr, p []byte, flags int) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(call, socket, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
