//go:build unix

package agentconn

import (
	"io/fs"
	"syscall"
)

// Inode returns the number of the file in its file system.
func Inode(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
