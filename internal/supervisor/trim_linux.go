package supervisor

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// trim gives back the memory that only the start needed: what this program's other parts have initialised of themselves
// is not used here. Pages of files are read again if they are.
func trim() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	var lo, hi uint64
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line)
		switch {
		case len(f) == 3 && string(f[0]) == "Anonymous:":
			if lo < hi && string(f[1]) == "0" { // nothing in it differs from the file: all that can be lost is time
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(lo), uintptr(hi-lo), unix.MADV_DONTNEED)
			}
			lo, hi = 0, 0
		case len(f) >= 5 && len(f[1]) == 4 && !bytes.HasSuffix(f[0], []byte{':'}): // range, permissions, offset, device, inode, path
			lo, hi = mapping(f)
		}
	}
}

// mapping returns the range of a mapping of a file that is not writable; else an empty one.
func mapping(f [][]byte) (lo, hi uint64) {
	if len(f) < 6 || f[5][0] != '/' || bytes.IndexByte(f[1], 'w') >= 0 {
		return 0, 0
	}
	from, to, _ := bytes.Cut(f[0], []byte{'-'})
	lo, err1 := strconv.ParseUint(string(from), 16, 64)
	hi, err2 := strconv.ParseUint(string(to), 16, 64)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return lo, hi
}
