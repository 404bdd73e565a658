package filepages

import (
	"context"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// The process is idle if it has used at most busy of processor time since it
// was looked at last: after pause, and after longPause while it stays idle.
const (
	busy      = 30 * time.Millisecond
	pause     = 3 * time.Second
	longPause = 30 * time.Second
)

// WhileIdle gives memory back each time the process becomes idle, until ctx is
// done: the pages of its program, and what the garbage collector has freed.
func WhileIdle(ctx context.Context) {
	pages := Find()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for before, idle := used(), false; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next, now := pause, used()
		was := idle
		if idle = now-before <= busy; idle {
			next = longPause
		}
		if idle && !was {
			debug.FreeOSMemory()
			pages.Drop()
			now = used()
		}
		before = now
		timer.Reset(next)
	}
}

// used returns the processor time of this process.
func used() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // unreachable: the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
