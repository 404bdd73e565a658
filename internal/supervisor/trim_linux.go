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

// quiet is the idle time after which a supervisor returns memory.
const quiet = time.Second

// trimmer returns memory to the system when the supervisor is idle. An idle
// supervisor needs neither the memory of a burst nor that of the program's
// unused packages.
type trimmer struct {
	files [][2]uintptr // file mappings whose pages are identical to the file
	timer *time.Timer
	armed atomic.Bool // the timer is running
	busy  atomic.Bool // there was activity since the timer started
}

func newTrimmer() *trimmer {
	t := &trimmer{files: mappings()}
	t.armed.Store(true)
	t.timer = time.AfterFunc(quiet, t.tick)
	return t
}

// note records activity.
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
	for _, m := range t.files { // file pages are read again when needed, so dropping them costs only time
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m[0], m[1]-m[0], unix.MADV_DONTNEED)
	}
}

// mappings returns the address ranges of unmodified, read-only file mappings of
// this process.
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
