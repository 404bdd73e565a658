//go:build unix

package rules

import (
	"io/fs"
	"syscall"
)

// hasSeveralNames reports whether a file has several names, by hard links.
func hasSeveralNames(file fs.FileInfo) bool {
	sys, ok := file.Sys().(*syscall.Stat_t)
	return ok && file.Mode().IsRegular() && sys.Nlink > 1
}
