package supervisor

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel/internal/filepages"
)

// quiet is the idle time after which a supervisor returns memory.
const quiet = time.Second

// trimmer returns memory to the system when the supervisor is idle. An idle
// supervisor needs neither the memory of a burst nor that of the program's
// unused packages.
type trimmer struct {
	files filepages.Mappings
	timer *time.Timer
	armed atomic.Bool // the timer is running
	busy  atomic.Bool // there was activity since the timer started
}

func newTrimmer() *trimmer {
	t := &trimmer{files: filepages.Find()}
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
	t.files.Drop()
}
