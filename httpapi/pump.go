package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A pump brings one session to one connection: history up to where the log ends
// now, then what follows, from one cursor.
type pump struct {
	k       *socket
	session string
	stop    context.CancelFunc
	done    chan struct{} // closed when run has returned
}

// The messages about a session.
type (
	historyMessage struct {
		Type      string            `json:"type"`
		SessionID string            `json:"sessionId"`
		Entries   []json.RawMessage `json:"entries"`
		Seq       int64             `json:"seq"`
		Resume    *resume           `json:"resume,omitempty"`
		Done      bool              `json:"done"`
	}
	liveMessage struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
		Payload   any    `json:"payload"`
	}
)

// Bounds of a history message.
const (
	historyEntries = 200
	historyBytes   = 512 << 10
)

func (k *socket) subscribe(data []byte) error {
	var in subscribeMessage
	if err := decodeStrict(data, &in); err != nil {
		return err
	}
	id, err := k.s.session(k.ctx, in.SessionID)
	if err != nil {
		return err
	}
	after := int64(0)
	if in.After != nil {
		after = *in.After
	}
	if after < 0 {
		return invalid("after: must be a whole number of zero or more")
	}
	k.unsubscribe(id)
	if len(k.pumps) >= subscriptionsEach {
		return runnel.Fail(runnel.RateLimited, "this connection has too many subscriptions; unsubscribe from some")
	}
	verdict, after, err := k.s.judgeCursor(k.ctx, id, after)
	if err != nil {
		return err
	}
	p := &pump{k: k, session: id, done: make(chan struct{})}
	ctx, stop := context.WithCancel(k.ctx)
	p.stop = stop
	k.pumps[id] = p
	k.watch().one(id)
	upserts := k.family == familyUpsert
	k.work.Go(func() {
		defer close(p.done)
		p.run(ctx, in.RequestID, after, verdict, upserts)
	})
	return nil
}

// unsubscribe returns once nothing more will come of the session.
func (k *socket) unsubscribe(session string) {
	if p := k.pumps[session]; p != nil {
		p.stop()
		<-p.done
		delete(k.pumps, session)
		k.watch().none(session)
	}
}

// run ends with its context. Whatever else ends it ends the connection: a
// client must not believe in a silence that is none.
func (p *pump) run(ctx context.Context, requestID string, after int64, verdict resume, upserts bool) {
	var err error
	if upserts {
		err = p.upserts(ctx, after, verdict)
	} else {
		err = p.events(ctx, after, verdict)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	_ = p.k.refuse(message{RequestID: requestID}, err)
	p.k.end(errors.Join(errBroken, err))
}

// upserts brings whole items, paced by how fast they are taken.
func (p *pump) upserts(ctx context.Context, after int64, verdict resume) error {
	log := p.k.s.gw.Log()
	from, err := p.k.s.gw.TurnStart(ctx, p.session, after)
	if err != nil {
		return err
	}
	first := &verdict
	for {
		c, err := readChunk(ctx, log, p.session, from, after)
		if err != nil {
			return err
		}
		if err := p.history(c, max(from, after), after, first); err != nil {
			return err
		}
		first, from = nil, c.last
		if !c.more {
			return p.live(ctx, c.pacer, c.last)
		}
	}
}

// history sends a chunk. Only its last message moves the cursor, since entries
// are in the order in which items appeared, not in which they changed.
func (p *pump) history(c chunk, from, after int64, first *resume) error {
	m := historyMessage{Type: "session:history", SessionID: p.session, Entries: []json.RawMessage{}, Seq: from, Resume: first}
	size := 0
	for _, o := range c.entries {
		data, err := json.Marshal(entry{o.Frame(), o})
		if err != nil {
			return err
		}
		if len(m.Entries) >= historyEntries || size+len(data) > historyBytes && size > 0 {
			if err := p.k.write(m); err != nil {
				return err
			}
			m.Entries, m.Resume, size = m.Entries[:0], nil, 0
		}
		m.Entries = append(m.Entries, data)
		size += len(data)
	}
	m.Seq, m.Done = max(c.last, after), !c.more
	return p.k.write(m)
}

// live goes on where the history ended.
func (p *pump) live(ctx context.Context, pacer *upsert.Pacer, after int64) error {
	log := p.k.s.gw.Log()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		grown := log.Grown(p.session, after) // before Read, so that no wake-up is lost
		evs, err := batch(ctx, log, p.session, after)
		if err != nil {
			return err
		}
		outs := pacer.PushAll(evs, time.Now()) // flushes what is due, too
		if len(evs) == 0 {
			outs = pacer.Flush(time.Now())
		}
		for _, o := range outs {
			if err := p.k.write(liveMessage{o.Frame(), p.session, o}); err != nil {
				return err
			}
		}
		if len(evs) > 0 {
			after = evs[len(evs)-1].Seq
			continue
		}
		due := (<-chan time.Time)(nil)
		if at, ok := pacer.Due(); ok {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		select {
		case <-grown:
		case <-due:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// events brings the log as it is.
func (p *pump) events(ctx context.Context, after int64, verdict resume) error {
	log := p.k.s.gw.Log()
	st, err := log.State(ctx, p.session)
	if err != nil {
		return err
	}
	first, done := &verdict, false
	for {
		grown := log.Grown(p.session, after) // before Read, so that no wake-up is lost
		evs, err := batch(ctx, log, p.session, after)
		if err != nil {
			return err
		}
		if !done {
			done = len(evs) == 0 || evs[len(evs)-1].Seq >= st.Head
			if after, err = p.past(evs, after, first, done); err != nil {
				return err
			}
			first = nil
			continue
		}
		for _, ev := range evs {
			if err := p.k.write(liveMessage{"session:event", p.session, ev}); err != nil {
				return err
			}
			after = ev.Seq
		}
		if len(evs) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// past sends events as history and returns the new cursor.
func (p *pump) past(evs []event.Event, after int64, first *resume, done bool) (int64, error) {
	for {
		n := min(len(evs), historyEntries)
		m := historyMessage{Type: "session:history", SessionID: p.session, Entries: []json.RawMessage{}, Resume: first, Done: done && n == len(evs)}
		for _, ev := range evs[:n] {
			data, err := json.Marshal(ev)
			if err != nil {
				return after, err
			}
			m.Entries = append(m.Entries, data)
			after = ev.Seq
		}
		m.Seq = after
		if err := p.k.write(m); err != nil {
			return after, err
		}
		if first, evs = nil, evs[n:]; len(evs) == 0 {
			return after, nil
		}
	}
}
