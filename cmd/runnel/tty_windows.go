package main

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// discardTyped discards typed input that was not read yet.
func discardTyped(f *os.File) { _ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) }

// columns returns the width of a terminal, or 0 if it is unknown.
func columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// enableSequences makes a terminal obey control sequences, and reports whether
// it does.
func enableSequences(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// setEcho determines whether a terminal shows what the user types. It returns
// whether it did so before.
func setEcho(f *os.File, on bool) (before bool) {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return true
	}
	before = mode&windows.ENABLE_ECHO_INPUT != 0
	mode &^= windows.ENABLE_ECHO_INPUT
	if on {
		mode |= windows.ENABLE_ECHO_INPUT
	}
	_ = windows.SetConsoleMode(h, mode)
	return before
}

// isBrokenPipe reports whether a write failed because the reader closed the
// pipe.
func isBrokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
