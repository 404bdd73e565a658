//go:build darwin || linux

package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// columns returns the width of a terminal, or 0 if it is unknown.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// enableSequences makes a terminal obey control sequences, and reports whether
// it does.
func enableSequences(*os.File) bool { return true }

// setEcho determines whether a terminal shows what the user types. It returns
// whether it did so before.
func setEcho(f *os.File, on bool) (before bool) {
	mode, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return true
	}
	before = mode.Lflag&unix.ECHO != 0
	mode.Lflag &^= unix.ECHO
	if on {
		mode.Lflag |= unix.ECHO
	}
	_ = unix.IoctlSetTermios(int(f.Fd()), setTermios, mode)
	return before
}

// isBrokenPipe reports whether a write failed because the reader closed the
// pipe.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
