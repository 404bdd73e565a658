package changes

import (
	"fmt"
	"io/fs"
	"syscall"
)

// changeTime returns the inode of a file and the time of its last change, which
// no program can set.
func changeTime(st fs.FileInfo) string {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d.%d", s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
}
