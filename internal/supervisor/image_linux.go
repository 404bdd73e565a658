package supervisor

import (
	"embed"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// bin holds cmd/supervise as a program for this system, if it was built before: see the Makefile.
//
//go:embed all:bin
var bin embed.FS

// itself is this program, also after its file was replaced.
const itself = "/proc/self/exe"

// image returns the program that is a supervisor: the small one, from memory, where it is built in and the system lets
// us run what has no file; else this program. The descriptor lives as long as the process.
var image = sync.OnceValue(func() string {
	b, err := bin.ReadFile("bin/supervise_" + runtime.GOARCH)
	if err != nil {
		return itself
	}
	fd, err := unix.MemfdCreate("supervise", unix.MFD_CLOEXEC)
	if err != nil {
		return itself
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil {
			unix.Close(fd)
			return itself
		}
		b = b[n:]
	}
	if unix.Fchmod(fd, 0o700) != nil {
		unix.Close(fd)
		return itself
	}
	return "/proc/self/fd/" + strconv.Itoa(fd)
})
