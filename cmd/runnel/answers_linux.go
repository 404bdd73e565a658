package main

import (
	"io/fs"
	"os"

	"github.com/mattn/go-isatty"
)

// isPrivate reports whether f is a socket or a terminal, so that no other
// process can write to the channel between a program and this process. An agent
// could open a file by its name, and either end of a pipe through /proc.
func isPrivate(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeSocket != 0 || isatty.IsTerminal(f.Fd())
}
