// Package filepages gives back the memory of a program's code and constants. The
// system loads pages of them when they are needed, and keeps them, also those
// that only the start of a program needs.
package filepages

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Mappings are address ranges.
type Mappings [][2]uintptr

// Drop gives the memory of the mappings back. Pages are read again when they are
// needed, so dropping them costs only time.
func (m Mappings) Drop() {
	for _, span := range m {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, span[0], span[1]-span[0], unix.MADV_DONTNEED)
	}
}

// Find returns the unmodified, read-only file mappings of this process. Their
// pages are identical to the files.
func Find() (files Mappings) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	var now [2]uintptr
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line)
		switch {
		case len(f) == 3 && string(f[0]) == "Anonymous:":
			if now[0] < now[1] && string(f[1]) == "0" {
				files = append(files, now)
			}
			now = [2]uintptr{}
		case len(f) >= 5 && len(f[1]) == 4 && !bytes.HasSuffix(f[0], []byte{':'}): // range, permissions, offset, device, inode, path
			now = mapping(f)
		}
	}
	return files
}

// mapping returns the address range of a read-only file mapping, or an empty
// range for any other mapping.
func mapping(f [][]byte) (span [2]uintptr) {
	if len(f) < 6 || f[5][0] != '/' || bytes.IndexByte(f[1], 'w') >= 0 {
		return span
	}
	from, to, _ := bytes.Cut(f[0], []byte{'-'})
	for i, s := range [][]byte{from, to} {
		n, err := strconv.ParseUint(string(s), 16, 64)
		if err != nil {
			return [2]uintptr{}
		}
		span[i] = uintptr(n)
	}
	return span
}
