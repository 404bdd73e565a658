//go:build unix

package attach

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps open from waiting for the other end of a pipe that took the
// place of a file.
const nonblock = syscall.O_NONBLOCK

// links returns how many names the file has.
func links(_ *os.File, st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 0
}
