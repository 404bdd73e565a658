package main

import (
	"io/fs"
	"os"

	"github.com/mattn/go-isatty"
)

// isPrivate reports whether nobody else can put anything into a channel between
// a program and us. An agent could open a pipe through /proc, at the program's
// end too, and a file by its name.
func isPrivate(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeSocket != 0 || isatty.IsTerminal(f.Fd())
}
