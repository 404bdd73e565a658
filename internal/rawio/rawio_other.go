//go:build !linux

package rawio

import "os"

// A File writes to a file by ordinary system calls.
type File struct{ *os.File }

// NewFile returns a File that writes to f.
func NewFile(f *os.File) *File { return &File{f} }
