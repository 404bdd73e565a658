package changes

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns the inode of a file and the time of its last change, which
// no program can set. Renaming a file changes this time.
func changeTime(st fs.FileInfo) (inode uint64, at time.Time) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, st.ModTime()
	}
	return s.Ino, time.Unix(s.Ctim.Unix())
}
