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
	// ErrOutboxFull is returned by Send when the child reads its input too
	// slowly. Send has queued nothing.
	ErrOutboxFull = errors.New("the agent does not read its input")

	// ErrStdinClosed is returned by Send and Flush when the child's stdin can
	// no longer be written.
	ErrStdinClosed = errors.New("the agent's input is closed")
)

const writeSize = 64 << 10 // bytes of one write, so that the progress of a large line is visible

// Outbox queues lines for a pipe or socket whose writes may block forever, so
// that senders never block. Its methods may be called from any goroutine.
type Outbox struct {
	f    io.WriteCloser // written only by Run
	max  int
	done chan struct{} // closed when Run ends

	mu       sync.Mutex
	queue    [][]byte
	size     int           // bytes queued and not yet written
	progress time.Time     // time of the last write, while size > 0
	empty    chan struct{} // closed when size becomes 0; replaced whenever size leaves 0
	closing  bool          // Send rejects new lines; Run still writes the queue
	err      error         // if set, nothing more is written
	wake     wake.Signal   // wakes Run
}

// NewOutbox returns an Outbox that holds up to max bytes. The caller must call
// Run on a goroutine of its own.
func NewOutbox(f io.WriteCloser, max int) *Outbox {
	return &Outbox{f: f, max: max, done: make(chan struct{}), wake: wake.New()}
}

// Send queues a copy of line and never blocks.
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

// Finish rejects further lines. Run writes the queue and then closes f.
func (o *Outbox) Finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.wake.Send()
}

// Abandon drops the queue and closes f, which also ends a blocked write.
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

// State returns the number of unwritten bytes and, if it is not 0, the time of
// the last progress.
func (o *Outbox) State() (queued int, stalled time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size == 0 {
		return 0, time.Time{}
	}
	return o.size, o.progress
}

// Flush waits until the queue has been written.
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
	case <-o.done:
		if closed(empty) {
			return nil
		}
		return ErrStdinClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run writes the queued lines until Finish or Abandon takes effect, and closes
// f.
func (o *Outbox) Run() {
	defer close(o.done)
	for {
		line, ok := o.next()
		if !ok {
			o.Abandon(ErrStdinClosed)
			return
		}
		for len(line) > 0 {
			n, err := o.f.Write(line[:min(len(line), writeSize)])
			o.wrote(n)
			if err != nil { // usually EPIPE: the child is ending, and wait handles that
				o.Abandon(ErrStdinClosed)
				return
			}
			line = line[n:]
		}
	}
}

// Done returns a channel that is closed when Run has ended.
func (o *Outbox) Done() <-chan struct{} { return o.done }

// next waits for the next line. It returns false when no more lines will
// follow.
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
