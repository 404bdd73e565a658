package proc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/wake"
)

var (
	// ErrOutboxFull is returned by Send when the child takes its input too
	// slowly. Nothing was queued.
	ErrOutboxFull = errors.New("the agent does not take its input")

	// ErrStdinClosed is returned by Send and Flush when the child can no longer
	// be written to.
	ErrStdinClosed = errors.New("the agent's input is closed")
)

const writeSize = 64 << 10 // of one write, so that progress on a large line is seen

// Outbox stands between senders, who never block, and a pipe or socket, which
// may for ever. Its methods may be called from any goroutine.
type Outbox struct {
	f    io.WriteCloser // written by Run only
	max  int
	gone chan struct{} // closed by Run at its end

	mu       sync.Mutex
	queue    [][]byte
	size     int           // bytes queued and not yet in the pipe
	progress time.Time     // the last one, while size > 0
	empty    chan struct{} // closed when size gets 0; a new one for each time it leaves 0
	closing  bool          // nothing more is taken; what is queued is written
	err      error         // nothing more is written
	wake     wake.Signal   // of Run
}

// NewOutbox returns an Outbox that holds up to max bytes. Its Run must be
// called, on a goroutine of its own.
func NewOutbox(f io.WriteCloser, max int) *Outbox {
	return &Outbox{f: f, max: max, gone: make(chan struct{}), wake: wake.New()}
}

// Send queues line and never blocks. It keeps no reference to it.
func (o *Outbox) Send(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil || o.closing:
		return ErrStdinClosed
	case len(line) > o.max-o.size:
		return ErrOutboxFull
	case len(line) == 0:
		return nil
	}
	if o.size == 0 {
		o.progress = time.Now()
		o.empty = make(chan struct{})
	}
	o.size += len(line)
	o.queue = append(o.queue, append([]byte(nil), line...))
	o.wake.Send()
	return nil
}

// Finish takes nothing more. What is queued is written; then f is closed.
func (o *Outbox) Finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.wake.Send()
}

// Abandon gives up what is queued. A write that hangs is woken.
func (o *Outbox) Abandon(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.queue = nil
	o.wake.Send()
	o.mu.Unlock()
	o.f.Close()
}

// State returns how many bytes wait and, if any do, since when none was taken.
func (o *Outbox) State() (queued int, stalled time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size == 0 {
		return 0, time.Time{}
	}
	return o.size, o.progress
}

// Flush waits until nothing waits any more.
func (o *Outbox) Flush(ctx context.Context) error {
	o.mu.Lock()
	size, empty := o.size, o.empty
	o.mu.Unlock()
	if size == 0 {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-o.gone:
		if closed(empty) {
			return nil
		}
		return ErrStdinClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run writes what is sent until the end of the Outbox, and closes f.
func (o *Outbox) Run() {
	defer close(o.gone)
	for {
		line, ok := o.next()
		if !ok {
			o.Abandon(ErrStdinClosed)
			return
		}
		for len(line) > 0 {
			n, err := o.f.Write(line[:min(len(line), writeSize)])
			o.wrote(n)
			if err != nil { // EPIPE as a rule: the child is going, and wait sees to it
				o.Abandon(ErrStdinClosed)
				return
			}
			line = line[n:]
		}
	}
}

// Gone is closed when Run has ended.
func (o *Outbox) Gone() <-chan struct{} { return o.gone }

// next waits for something to write. It reports false when there will be
// nothing.
func (o *Outbox) next() ([]byte, bool) {
	for {
		o.mu.Lock()
		switch {
		case o.err != nil:
			o.mu.Unlock()
			return nil, false
		case len(o.queue) > 0:
			line := o.queue[0]
			o.queue[0] = nil
			o.queue = o.queue[1:]
			o.mu.Unlock()
			return line, true
		case o.closing:
			o.mu.Unlock()
			return nil, false
		}
		o.mu.Unlock()
		<-o.wake
	}
}

func (o *Outbox) wrote(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n == 0 {
		return
	}
	o.progress = time.Now()
	if o.size -= n; o.size == 0 {
		close(o.empty)
	}
}
