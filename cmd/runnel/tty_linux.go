package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// discardTyped discards what was typed at a terminal and not yet read, an
// unfinished line included.
func discardTyped(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }

// columns returns the width of a terminal; 0 if it is not known.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// isBrokenPipe reports whether a write failed because nobody reads any more.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
