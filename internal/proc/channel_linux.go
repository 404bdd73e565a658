package proc

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// inputChannel returns a channel to the child's stdin. It is a pair of sockets,
// not a pipe: any process of the same user, so every agent, could open the
// other end of a pipe through /proc. A write by the child to its end fails.
func inputChannel() (read, write *os.File, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Shutdown(ours, unix.SHUT_RD); err != nil {
		unix.Close(ours)
		unix.Close(theirs)
		return nil, nil, os.NewSyscallError("shutdown", err)
	}
	return os.NewFile(uintptr(theirs), "stdin"), os.NewFile(uintptr(ours), "stdin"), nil
}

// input is our end of a child's stdin. Close ends the input, also if another
// process holds a duplicate; see Process.StdinFile.
type input struct{ *os.File }

func newInput(f *os.File) io.WriteCloser { return input{f} }

// Close implements io.Closer.
func (in input) Close() error {
	if conn, err := in.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // fails if it is closed
	}
	return in.File.Close()
}

// duplicateOf returns a duplicate of our end of a child's stdin.
func duplicateOf(stdin *os.File) (*os.File, error) {
	conn, err := stdin.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := -1, error(nil)
	if err := conn.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("fcntl", failed)
	}
	return os.NewFile(uintptr(fd), "stdin"), nil
}

// outputChannel returns a channel from the child's stdout. It is a pair of
// sockets for the same reason as in inputChannel: no other process can write to
// it.
func outputChannel() (read, write *os.File, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(ours), "stdout"), os.NewFile(uintptr(theirs), "stdout"), nil
}

// sharedChannel is outputChannel for an output that other processes read. The
// poller of this process does not watch our end, because each write of the
// child would wake this process.
func sharedChannel() (read, write *os.File, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	_ = unix.SetNonblock(ours, false) // os.NewFile watches a descriptor that does not block
	read = os.NewFile(uintptr(ours), "stdout")
	if err := unix.SetNonblock(ours, true); err != nil {
		read.Close()
		unix.Close(theirs)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return read, os.NewFile(uintptr(theirs), "stdout"), nil
}

// socketPair returns our end, which is non-blocking, and the child's end, which
// blocks.
func socketPair() (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(pair[0], true); err == nil {
			return pair[0], pair[1], nil
		}
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
	return 0, 0, os.NewSyscallError("socketpair", err)
}
