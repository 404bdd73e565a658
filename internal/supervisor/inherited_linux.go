package supervisor

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstFD is the first descriptor after standard input, output and error.
const firstFD = 3

// keepInherited keeps the descriptors that this process inherited from the
// program that started it, such as the lock of a script or a directory, from
// the programs that this process starts. With an inherited directory an agent
// could leave its sandbox. The process itself can still use them.
func keepInherited() {
	if unix.CloseRange(firstFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	dir, err := os.Open("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd >= firstFD {
			unix.CloseOnExec(fd)
		}
	}
}
