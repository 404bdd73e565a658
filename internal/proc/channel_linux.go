package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// inputChannel returns a channel to the child's stdin. It is a pair of sockets:
// an end of a pipe can be opened as the other one through /proc by whoever runs
// as the same user, and so by every agent. What the child writes into it fails.
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

// outputChannel returns a channel from the child's stdout. It is a pair of
// sockets for the reason of inputChannel: nobody else speaks for the child.
func outputChannel() (read, write *os.File, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(ours), "stdout"), os.NewFile(uintptr(theirs), "stdout"), nil
}

// socketPair returns our end, which the poller can wait for, and the child's,
// which blocks.
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
