//go:build unix

package nofollow

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock prevents open from blocking if a pipe has replaced the file.
const nonblock = syscall.O_NONBLOCK

// Links returns the number of names of the file, or 0 if it is unknown.
func Links(_ *os.File, st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 0
}
