package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// discardTyped discards typed input that was not read yet, including an
// unfinished line.
func discardTyped(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }

// columns returns the width of a terminal, or 0 if it is unknown.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// isBrokenPipe reports whether a write failed because the reader closed the
// pipe.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
