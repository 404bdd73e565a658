package nofollow

import (
	"io/fs"
	"os"
	"syscall"
)

const nonblock = 0

// Links returns the number of names of the file, or 0 if it is unknown.
func Links(f *os.File, _ fs.FileInfo) uint64 {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0
	}
	return uint64(info.NumberOfLinks)
}
