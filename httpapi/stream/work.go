package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// dropAfter is how long a write may wait for the client, or a pump for the
// writes of other pumps, until the pump drops its work.
func (p *pump) dropAfter() time.Duration { return p.k.s.cfg.WriteStall / 5 }

// errDropped reports that a message was sent, but that the work was dropped
// meanwhile.
var errDropped = errors.New("httpapi: the client read slowly")

// A work is what a pump has read and not sent yet, and the state that it needs
// to read on. The zero value reads on after the position that the client has
// reached.
type work struct {
	history *historyReader // reads the history of upserts; nil: read completely
	pacer   *upsert.Pacer  // paces the upserts after the history
	feed    *feed          // reads events; of upserts, only those after the history
	outs    []upsert.Out   // read and not sent
	evs     []event.Event  // read and not sent
}

// sending drops a pump's work while a write waits for the client, and ends the
// connection if the write takes too long.
type sending struct {
	work
	unsent bool // pump.try has left something, which settle sends

	mu      sync.Mutex
	writing bool        // work is not used, because a message is being written
	dropped bool        // work was dropped during the write
	timer   *time.Timer // calls late during a write
}

// begin begins a write. It must not run at the same time as another write of
// the same pump.
func (p *pump) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing, p.dropped = true, false
	if p.timer == nil {
		p.timer = time.AfterFunc(p.dropAfter(), p.late)
	} else {
		p.timer.Reset(p.dropAfter())
	}
}

// late drops the work of a write that waits for the client. If the write still
// waits when late is called again, late ends the connection.
func (p *pump) late() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.writing: // the write ended while the timer fired
	case p.dropped:
		p.k.stall()
	default:
		p.work, p.dropped = work{}, true
		p.timer.Reset(p.k.s.cfg.WriteStall - p.dropAfter())
	}
}

func (p *pump) end() (dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = false
	p.timer.Stop()
	return p.dropped
}

// deliver is like send, and ends the connection if the client does not read. It
// returns errDropped if the message was sent, but the client read so slowly
// that the work was dropped. The caller keeps no reference to the work in a
// variable that it uses afterwards.
func (p *pump) deliver(data []byte, seq int64) error {
	p.begin()
	err := p.send(data, seq)
	if dropped := p.end(); err == nil && dropped {
		return errDropped
	}
	return err
}

// enter waits until no other pump of the connection reads the log or writes. It
// drops the work if that takes long.
func (p *pump) enter(ctx context.Context) error {
	select {
	case p.k.turn <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.dropAfter())
	defer timer.Stop()
	for {
		select {
		case p.k.turn <- struct{}{}:
			return nil
		case <-timer.C:
			p.work = work{}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// inTurn calls f while no other pump of the connection reads the log or writes.
// If the client does not read, the connection therefore holds in memory only
// the message of one pump, however many subscriptions it has. f may find that
// the work was dropped. An errDropped of f is no error.
func (p *pump) inTurn(ctx context.Context, f func() error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer func() { <-p.k.turn }()
	if err := f(); !errors.Is(err, errDropped) {
		return err
	}
	return nil
}
