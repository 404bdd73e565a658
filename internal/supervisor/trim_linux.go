package supervisor

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// quiet is how long nothing happens before a supervisor makes itself small.
const quiet = time.Second

// trimmer gives memory back whenever nothing happens: what this program's other
// parts have initialised of themselves, and what a burst took, is not needed by
// a supervisor that waits.
type trimmer struct {
	files [][2]uintptr // mappings of files in which nothing differs from the file
	timer *time.Timer
	armed atomic.Bool // the timer runs
	busy  atomic.Bool // something happened since it began to
}

func newTrimmer() *trimmer {
	t := &trimmer{files: mappings()}
	t.armed.Store(true)
	t.timer = time.AfterFunc(quiet, t.tick)
	return t
}

// note says that something happens.
func (t *trimmer) note() {
	t.busy.Store(true)
	if t.armed.CompareAndSwap(false, true) {
		t.timer.Reset(quiet)
	}
}

func (t *trimmer) tick() {
	if t.busy.Swap(false) {
		t.timer.Reset(quiet)
		return
	}
	t.armed.Store(false)
	debug.FreeOSMemory()
	for _, m := range t.files { // pages of files are read again if they are needed: all that can be lost is time
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m[0], m[1]-m[0], unix.MADV_DONTNEED)
	}
}

// mappings returns the ranges of this process that show a file as it is, and
// cannot be written.
func mappings() (files [][2]uintptr) {
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

// mapping returns the range of a mapping of a file that is not writable; else
// an empty one.
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
