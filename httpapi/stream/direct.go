package stream

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/upsert"
)

// A direct sends messages of a WebSocket without waiting, and without the
// WebSocket library: each message is one frame. The library writes a control
// frame at once, so such a frame never cuts one of a direct.
type direct struct {
	conn    *conns.Sender // nil if the connection can only be written to by waiting
	message chan struct{} // held to send a message, by the library or a direct

	mu     sync.Mutex // held to send without waiting
	closed bool       // the library may have sent its last frame
}

// noMore ends sending, because the library is about to close the connection.
func (d *direct) noMore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// try sends frames without waiting. If sent is false, it has sent nothing. If
// full is true, the caller's goroutine has to flush conn.
func (d *direct) try(frames []byte) (sent, full bool) {
	if len(frames) >= largeMessage {
		return false, false
	}
	select {
	case d.message <- struct{}{}:
		defer func() { <-d.message }()
	default:
		return false, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false, false
	}
	return d.conn.TryWrite(frames)
}

// A batch has the frames of messages that are sent at once.
type batch struct {
	frames   []byte
	messages int
	pooled   *[]byte // from buffers
}

func newBatch() batch {
	pooled := buffers.Get().(*[]byte)
	return batch{frames: *pooled, pooled: pooled}
}

// release gives the buffer back.
func (b *batch) release() {
	if cap(b.frames) <= 4*sseBuffer {
		*b.pooled = b.frames[:0]
		buffers.Put(b.pooled)
	}
}

// frameHeader is the size of the largest header of a server's frame.
const frameHeader = 10

// begin returns the buffer to which the caller appends a message.
func (b *batch) begin() []byte { return append(b.frames, make([]byte, frameHeader)...) }

// end ends the message that the caller has appended to the result of begin.
func (b *batch) end(whole []byte) {
	start := len(b.frames)
	payload := whole[start+frameHeader:]
	const text = finBit | 0x1
	header := append(whole[:start], text)
	switch n := len(payload); {
	case n < 126:
		header = append(header, byte(n))
	case n <= 0xffff:
		header = binary.BigEndian.AppendUint16(append(header, 126), uint16(n))
	default:
		header = binary.BigEndian.AppendUint64(append(header, 127), uint64(n))
	}
	b.frames = append(header, payload...) // moves the payload if the header is shorter than its room
	b.messages++
}

// try sends the messages that fill adds to a batch, without waiting. With them
// the client has all events up to position seq. If more is false, settle has to
// send the rest, or, if sent is false, the caller everything.
func (p *pump) try(fill func(b *batch) (seq int64, err error)) (sent, more bool) {
	select {
	case p.k.turn <- struct{}{}: // no other pump of the connection reads or writes
		defer func() { <-p.k.turn }()
	default:
		return false, false
	}
	b := newBatch()
	defer b.release()
	seq, err := fill(&b)
	if err != nil || p.k.ctx.Err() != nil {
		return false, false // the caller fails in the same way
	}
	if !p.tryBatch(&b, seq) {
		return false, false
	}
	return true, !p.unsent
}

// together sends messages in one write, as many as a client may leave unread.
// message appends the i-th of n messages, and returns the position up to which
// the client has all events with it. The caller removes the messages that were
// sent from the work. It sends the first of the others by itself.
func (p *pump) together(n int, message func(to []byte, i int) (data []byte, seq int64, err error)) (sent int, err error) {
	if p.k.direct.conn == nil || n < 2 {
		return 0, nil
	}
	b := newBatch()
	defer b.release()
	var last int64
	for ; sent < n; sent++ {
		whole := len(b.frames)
		data, seq, err := message(b.begin(), sent)
		if err != nil {
			return 0, err
		}
		if b.end(data); len(b.frames) >= largeMessage {
			b.frames = b.frames[:whole]
			b.messages--
			break
		}
		last = seq
	}
	if !p.tryBatch(&b, last) {
		return 0, nil
	}
	return sent, nil
}

// tryBatch sends a batch without waiting. With it the client has all events up
// to position seq. settle has to send what tryBatch has left.
func (p *pump) tryBatch(b *batch, seq int64) (sent bool) {
	if sent, p.unsent = p.k.direct.try(b.frames); !sent {
		return false
	}
	p.sent.Store(max(p.sent.Load(), seq))
	p.k.wrote.Store(true)
	for range b.messages {
		p.k.count()
	}
	return true
}

// taker returns take, or nil if the pump cannot send without waiting.
func (p *pump) taker(take taker) taker {
	if p.k.direct.conn == nil {
		return nil
	}
	return take
}

// settle sends what try has left.
func (p *pump) settle() error {
	if !p.unsent {
		return nil
	}
	p.begin()
	err := p.k.direct.conn.Flush()
	dropped := p.end()
	switch p.unsent = false; {
	case err != nil:
		p.k.end(errGone)
		return errGone
	case dropped:
		return errDropped
	}
	return nil
}

// takeEvents is a [taker] of a pump that sends events unchanged, in messages
// that begin with live.
func (p *pump) takeEvents(evs []event.Event, live []byte) (more bool, due time.Time) {
	sent, more := p.try(func(b *batch) (seq int64, err error) {
		for _, ev := range evs {
			message, err := p.eventMessage(b.begin(), live, ev)
			if err != nil {
				return 0, err
			}
			b.end(message)
		}
		return evs[len(evs)-1].Seq, nil
	})
	if sent {
		p.lag.wrote(p.lag.oldest(evs))
	} else {
		p.evs = slices.Clone(evs)
	}
	return more, due
}

// takeUpserts is a [taker] of a pump that sends whole items.
func (p *pump) takeUpserts(evs []event.Event) (more bool, due time.Time) {
	oldest := p.lag.oldest(evs)
	if !p.fold(evs) {
		return false, due
	}
	due, _ = p.pacer.Due()
	if len(p.outs) == 0 {
		return true, due
	}
	sent, more := p.try(func(b *batch) (seq int64, err error) {
		for _, o := range p.outs {
			message, err := p.upsertMessage(b.begin(), o)
			if err != nil {
				return 0, err
			}
			b.end(message)
			seq = max(seq, upsert.SeqOf(o))
		}
		return seq, nil
	})
	if sent {
		p.outs = nil
		p.lag.wrote(oldest)
	}
	return more, due
}
