package stream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// events sends the events of the log unchanged: those up to the present end of
// the log as history, later ones one by one.
func (p *pump) events(ctx context.Context) error {
	st, err := p.k.s.cfg.Gateway.Log().State(ctx, p.session)
	if err != nil {
		return err
	}
	session, err := json.Marshal(p.session)
	if err != nil {
		return err
	}
	live := append(append([]byte(`{"type":"session:event","sessionId":`), session...), `,"payload":`...)
	take := p.taker(func(evs []event.Event) (bool, time.Time) { return p.takeEvents(evs, live) })
	for {
		if p.feed != nil && p.loaded {
			if _, err := p.feed.wait(ctx, time.Time{}, take); err != nil {
				return err
			}
		}
		if err := p.inTurn(ctx, func() error { return p.nextEvents(ctx, st.Head, live) }); err != nil {
			return err
		}
	}
}

// nextEvents reads one batch of events and sends it. Events up to position head
// are history. live is the beginning of a message with a later event.
func (p *pump) nextEvents(ctx context.Context, head int64, live []byte) (err error) {
	if p.feed == nil {
		if p.feed, err = p.k.s.feed(ctx, p.session, p.sent.Load()); err != nil {
			return err
		}
	}
	if err := p.settle(); err != nil {
		return err
	}
	if len(p.evs) == 0 { // else takeEvents has left some
		if p.evs, err = p.feed.read(ctx); err != nil {
			return err
		}
	}
	oldest := p.lag.oldest(p.evs)
	for more := !p.loaded; more && err == nil; more = !p.loaded && len(p.evs) > 0 {
		err = p.pastEvents(head)
	}
	for err == nil && len(p.evs) > 0 {
		err = p.liveEvents(live)
	}
	if err == nil || errors.Is(err, errDropped) {
		p.lag.wrote(oldest)
	}
	return err
}

// messages are buffers for one message each. A buffer is in use while the
// client does not read, so a large one is not kept.
var messages = sync.Pool{New: func() any { return new([]byte) }}

const messageKept = 4 << 10

// liveEvents sends the first events of p.evs, in messages that begin with live.
func (p *pump) liveEvents(live []byte) error {
	n, err := p.together(len(p.evs), func(to []byte, i int) ([]byte, int64, error) {
		data, err := p.eventMessage(to, live, p.evs[i])
		return data, p.evs[i].Seq, err
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		return p.liveEvent(live)
	}
	clear(p.evs[:n])
	p.evs = p.evs[n:]
	return p.settle()
}

// eventMessage appends the message with an event.
func (p *pump) eventMessage(to, live []byte, ev event.Event) ([]byte, error) {
	data, err := p.k.s.encoded.append(append(to, live...), ev)
	return append(data, '}'), err
}

// liveEvent sends the first event of p.evs, in a message that begins with live.
func (p *pump) liveEvent(live []byte) error {
	buf := messages.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= messageKept {
			messages.Put(buf)
		}
	}()
	seq := p.evs[0].Seq
	data, err := p.eventMessage((*buf)[:0], live, p.evs[0])
	if err != nil {
		return err
	}
	p.evs[0] = event.Event{}
	p.evs = p.evs[1:]
	*buf = data[:0]
	return p.deliver(data, seq)
}

// pastEvents sends events of p.evs as one message of the history.
func (p *pump) pastEvents(head int64) error {
	data, seq, done, err := p.pastMessage(head)
	if err != nil {
		return err
	}
	err = p.deliver(data, seq)
	if err == nil || errors.Is(err, errDropped) {
		p.first, p.loaded = nil, done
	}
	return err
}

// pastMessage encodes the next message of the history, and removes its events
// from p.evs.
func (p *pump) pastMessage(head int64) (data []byte, seq int64, done bool, err error) {
	m := historyMessage{Type: "session:history", SessionID: p.session, Entries: []json.RawMessage{}, Seq: p.sent.Load(), Resume: p.first}
	none := len(p.evs) == 0
	size := 0
	for len(p.evs) > 0 && p.evs[0].Seq <= head && len(m.Entries) < historyEntries {
		data, err := json.Marshal(p.evs[0])
		if err != nil {
			return nil, 0, false, err
		}
		if size > 0 && size+len(data) > historyBytes {
			break // encoded again for the next message
		}
		m.Entries, m.Seq = append(m.Entries, data), p.evs[0].Seq
		size += len(data)
		p.evs[0] = event.Event{}
		p.evs = p.evs[1:]
	}
	m.Done = none || m.Seq >= head || len(p.evs) > 0 && p.evs[0].Seq > head
	data, err = json.Marshal(m)
	return data, m.Seq, m.Done, err
}
