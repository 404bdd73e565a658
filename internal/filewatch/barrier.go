package filewatch

import (
	"context"
	"os"
	"runtime"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// A barrier finds out when all earlier events have been handled. It changes the
// mode of a file of its own, and the system reports this after all earlier
// changes. Only Linux promises this order. A nil barrier always fails.
type barrier struct {
	file *os.File // has no name any more, so nothing is left behind
	path string   // its former name
	turn chan struct{}

	mu     sync.Mutex
	waits  chan struct{} // closed with the next event of the file; nil if nobody waits
	closed bool
}

func newBarrier(fs *fsnotify.Watcher) *barrier {
	if runtime.GOOS != "linux" {
		return nil
	}
	f, err := os.CreateTemp("", "runnel-events-*")
	if err != nil {
		return nil
	}
	b := &barrier{file: f, path: f.Name(), turn: make(chan struct{}, 1)}
	err = fs.Add(b.path)
	if removed := os.Remove(b.path); err == nil {
		err = removed
	}
	if err != nil {
		_ = f.Close()
		return nil
	}
	return b
}

// passed reports whether ev is an event of the barrier's own file. If so, all
// earlier events have been handled.
func (b *barrier) passed(ev fsnotify.Event) bool {
	if b == nil || ev.Name != b.path {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits != nil && ev.Has(fsnotify.Chmod) {
		close(b.waits)
		b.waits = nil
	}
	return true
}

// wait waits until all earlier events have been handled.
func (b *barrier) wait(ctx context.Context) bool {
	if b == nil {
		return false
	}
	// The removal of the file's name causes an event, too, which may release the
	// first caller early. Two rounds are certain.
	for range 2 {
		if !b.round(ctx) {
			return false
		}
	}
	return true
}

// round changes the file's mode once, and waits for the event. Only one round
// runs at a time, so the event belongs to it.
func (b *barrier) round(ctx context.Context) bool {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-b.turn }()
	done := make(chan struct{})
	b.mu.Lock()
	closed := b.closed
	b.waits = done
	b.mu.Unlock()
	if closed || b.file.Chmod(0o600) != nil {
		return false
	}
	select {
	case <-done:
		b.mu.Lock()
		defer b.mu.Unlock()
		return !b.closed
	case <-ctx.Done():
		return false
	}
}

func (b *barrier) close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.waits != nil {
		close(b.waits)
		b.waits = nil
	}
	_ = b.file.Close()
}
