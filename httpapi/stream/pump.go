package stream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// A pump serves one subscription of a WebSocket: it sends the session's history
// up to the present end of the log, then new events as they are appended.
type pump struct {
	k       *socket
	session string
	stop    context.CancelFunc
	done    chan struct{} // closed when run has returned
	sent    atomic.Int64  // position up to which the client has all events
	lag     lagMeter
}

// Messages about a session.
type (
	historyMessage struct {
		Type      string            `json:"type"`
		SessionID string            `json:"sessionId"`
		Entries   []json.RawMessage `json:"entries"`
		Seq       int64             `json:"seq"`
		First     int64             `json:"first,omitempty"`
		Resume    *Resume           `json:"resume,omitempty"`
		Done      bool              `json:"done"`
	}
	liveMessage struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
		Payload   any    `json:"payload"`
	}
)

// Bounds of a history message: the number of entries, and their bytes unless
// there is only one.
const (
	historyEntries = 200
	historyBytes   = 32 << 10
)

func (k *socket) subscribe(data []byte) error {
	var in subscribeMessage
	if err := reply.Strict(data, &in); err != nil {
		return err
	}
	id, err := k.s.cfg.Sessions.Resolve(k.ctx, in.SessionID)
	if err != nil {
		return err
	}
	after := int64(0)
	if in.After != nil {
		after = *in.After
	}
	if after < 0 {
		return reply.Invalid("after: must be a whole number of zero or more")
	}
	if in.Limit != nil && *in.Limit < 1 {
		return reply.Invalid("limit: must be a whole number of one or more")
	}
	if in.Limit != nil && k.family != FamilyUpsert {
		return reply.Invalid("limit: only the family " + FamilyUpsert + " has entries that can be limited")
	}
	k.unsubscribe(id)
	if len(k.pumps) >= subscriptionsEach {
		return runnel.Fail(runnel.RateLimited, "this connection has too many subscriptions; unsubscribe from some")
	}
	verdict, after, err := k.s.judgeCursor(k.ctx, id, after, in.LogID)
	if err != nil {
		return err
	}
	caller, l := k.id.ID, k.s.cfg.Limits
	if err := k.s.follows.add(caller, namedLimit{l.Subscriptions, "max-subscriptions"}, namedLimit{l.SubscriptionsPerCredential, "max-subscriptions-per-credential"}); err != nil {
		return k.s.refuse("subscriptions; unsubscribe from some", err)
	}
	p := &pump{k: k, session: id, done: make(chan struct{}), lag: k.s.lagOf(k.family)}
	ctx, end := context.WithCancelCause(k.ctx)
	p.stop = func() { end(context.Canceled) }
	p.sent.Store(after)
	k.mu.Lock()
	k.pumps[id] = p
	k.mu.Unlock()
	k.watch().one(id)
	upserts, limit := k.family == FamilyUpsert, 0
	if in.Limit != nil && after == 0 {
		limit = min(*in.Limit, maxItems)
	}
	forget := k.s.deletions.add(id, end)
	k.work.Go(func() {
		defer close(p.done)
		defer k.s.follows.remove(caller)
		defer forget()
		p.run(ctx, in.RequestID, after, limit, verdict, upserts)
	})
	return nil
}

// unsubscribe ends the subscription to a session, if there is one. Once it has
// returned, nothing more is sent about the session, except its status if the
// connection watches all sessions.
func (k *socket) unsubscribe(session string) {
	if p := k.pumps[session]; p != nil {
		p.stop()
		<-p.done
		k.mu.Lock()
		delete(k.pumps, session)
		k.mu.Unlock()
		k.watch().none(session)
	}
}

// run sends events until ctx ends. If the session is deleted, only the
// subscription ends. Any other error closes the connection, so that a dead
// subscription cannot look idle.
func (p *pump) run(ctx context.Context, requestID string, after int64, limit int, verdict Resume, upserts bool) {
	var err error
	if limit > 0 {
		err = p.tail(ctx, limit, verdict)
	} else if upserts {
		err = p.upserts(ctx, after, verdict)
	} else {
		err = p.events(ctx, after, verdict)
	}
	if errors.Is(context.Cause(ctx), errDeleted) {
		_ = p.k.refuse(Message{RequestID: requestID}, errDeleted)
		return
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	_ = p.k.refuse(Message{RequestID: requestID}, err)
	if runnel.CodeOf(err) == runnel.StoreUnavailable {
		err = errors.Join(errStore, err)
	}
	p.k.end(errors.Join(errBroken, err))
}

// write sends a message. With it the client has all events up to position seq.
func (p *pump) write(v any, seq int64) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.send(data, seq)
}

func (p *pump) send(data []byte, seq int64) error {
	err := p.k.send(data)
	if err == nil {
		p.sent.Store(max(p.sent.Load(), seq))
	}
	return err
}

// goodbye sends the last message of each subscription: the position to resume
// after.
func (k *socket) goodbye(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, p := range k.pumps {
		select {
		case <-p.done:
		case <-ctx.Done(): // the pump is blocked in a write, and this write would block, too
			return
		}
		data, err := json.Marshal(endMessage{"session:end", id, p.sent.Load(), reasonShutdown, nil})
		if err != nil || k.conn.Write(ctx, websocket.MessageText, data) != nil {
			return
		}
	}
}

// inTurn calls f while no other pump of the connection reads the log or writes.
// If the client does not read, the connection therefore holds in memory only
// what one pump has read, however many subscriptions it has.
func (p *pump) inTurn(ctx context.Context, f func() error) error {
	select {
	case p.k.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.k.turn }()
	return f()
}

// upserts sends whole items. A client that reads slowly gets fewer upserts.
func (p *pump) upserts(ctx context.Context, after int64, verdict Resume) error {
	log := p.k.s.cfg.Gateway.Log()
	from, err := p.k.s.cfg.Gateway.Past(p.session).Start(ctx, after)
	if err != nil {
		return err
	}
	st, err := log.State(ctx, p.session)
	if err != nil {
		return err
	}
	history := newHistoryReader(log, p.session, from, after)
	history.bytes, history.end = followedBytes, st.Head
	history.pacer.Append = p.k.appends
	for first, more := &verdict, true; more; first = nil {
		err := p.inTurn(ctx, func() error {
			from := max(history.at, after)
			c, err := history.next(ctx)
			if err != nil {
				return err
			}
			more = c.more
			return p.history(c, from, max(c.last, after), 0, first)
		})
		if err != nil {
			return err
		}
	}
	return p.live(ctx, history.pacer, history.at)
}

// tail sends the newest entries of the history, and then whole items.
func (p *pump) tail(ctx context.Context, limit int, verdict Resume) error {
	st, err := p.k.s.cfg.Gateway.Log().State(ctx, p.session)
	if err != nil {
		return err
	}
	pacer := &upsert.Pacer{Append: p.k.appends}
	err = p.inTurn(ctx, func() error {
		page, err := p.k.s.cfg.Gateway.Past(p.session).Tail(ctx, pacer, st.Head, limit)
		if err != nil {
			return errUnreadable(ctx, err)
		}
		first := page.First
		if !page.More() {
			first = 0
		}
		return p.history(chunk{entries: page.Outs, last: st.Head}, 0, st.Head, first, &verdict)
	})
	if err != nil {
		return err
	}
	return p.live(ctx, pacer, st.Head)
}

// history sends a chunk in one or more messages. oldest is the position before
// which the log has older entries; the first message contains it, unless it is
// 0. Entries are in the order in which items appeared in the log, not in which
// they changed. The client therefore reaches a new position only when it has
// all entries of the chunk, and only the last message moves the client's
// cursor.
func (p *pump) history(c chunk, before, after, oldest int64, first *Resume) error {
	m := historyMessage{Type: "session:history", SessionID: p.session, Entries: []json.RawMessage{}, Seq: before, First: oldest, Resume: first}
	size := 0
	write := func(seq int64) error {
		data, err := json.Marshal(m)
		clear(m.Entries) // data contains them now
		m.Entries, m.First, m.Resume, size = m.Entries[:0], 0, nil, 0
		if err != nil {
			return err
		}
		return p.send(data, seq)
	}
	for i, o := range c.entries {
		c.entries[i] = nil // o is in m or written: while the client does not read, memory holds it only once
		data, err := json.Marshal(entry{o.Frame(), o})
		if err != nil {
			return err
		}
		if len(m.Entries) >= historyEntries || size+len(data) > historyBytes && size > 0 {
			if err := write(0); err != nil {
				return err
			}
		}
		m.Entries = append(m.Entries, data)
		size += len(data)
	}
	m.Seq, m.Done = after, !c.more
	return write(after)
}

// live sends the upserts of the events after the history.
func (p *pump) live(ctx context.Context, pacer *upsert.Pacer, after int64) error {
	feed, err := p.k.s.feed(ctx, p.session, after)
	if err != nil {
		return err
	}
	for {
		due, _ := pacer.Due()
		if _, err := feed.wait(ctx, due); err != nil {
			return err
		}
		err := p.inTurn(ctx, func() (err error) {
			pacer, err = p.liveUpserts(ctx, feed, pacer)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// liveUpserts reads one batch of events and sends the upserts that are due. It
// returns the pacer to continue with.
func (p *pump) liveUpserts(ctx context.Context, feed *feed, pacer *upsert.Pacer) (*upsert.Pacer, error) {
	evs, err := feed.read(ctx)
	if err != nil {
		return pacer, err
	}
	if len(evs) == 0 {
		return pacer, p.sendLive(pacer.Flush(time.Now()))
	}
	for rest := evs; len(rest) > 0; {
		outs, n := pacer.PushPaired(rest, time.Now()) // also flushes upserts that are due
		if err := p.sendLive(outs); err != nil {
			return pacer, err
		}
		if rest = rest[n:]; len(rest) > 0 {
			if pacer, err = pacerAt(ctx, p.k.s.cfg.Gateway.Log(), p.session, rest[0].Seq-1, pacer); err != nil {
				return pacer, errUnreadable(ctx, err)
			}
		}
	}
	p.lag.wrote(evs)
	return pacer, nil
}

func (p *pump) sendLive(outs []upsert.Out) error {
	for i, o := range outs {
		outs[i] = nil
		if err := p.write(liveMessage{o.Frame(), p.session, o}, upsert.SeqOf(o)); err != nil {
			return err
		}
	}
	return nil
}

// events sends the events of the log unchanged: those up to the present end of
// the log as history, later ones one by one.
func (p *pump) events(ctx context.Context, after int64, verdict Resume) error {
	st, err := p.k.s.cfg.Gateway.Log().State(ctx, p.session)
	if err != nil {
		return err
	}
	feed, err := p.k.s.feed(ctx, p.session, after)
	if err != nil {
		return err
	}
	for first, done := &verdict, false; !done; first = nil {
		err := p.inTurn(ctx, func() error {
			evs, err := feed.read(ctx)
			if err != nil {
				return err
			}
			past := slices.IndexFunc(evs, func(ev event.Event) bool { return ev.Seq > st.Head })
			if past < 0 {
				past = len(evs)
			}
			done = past == 0 || evs[past-1].Seq >= st.Head
			if after, err = p.pastEvents(evs[:past], after, first, done); err != nil {
				return err
			}
			return p.liveEvents(evs[past:])
		})
		if err != nil {
			return err
		}
	}
	for {
		if _, err := feed.wait(ctx, time.Time{}); err != nil {
			return err
		}
		err := p.inTurn(ctx, func() error {
			evs, err := feed.read(ctx)
			if err != nil {
				return err
			}
			return p.liveEvents(evs)
		})
		if err != nil {
			return err
		}
	}
}

// liveEvents sends events one by one. Each message is a liveMessage.
func (p *pump) liveEvents(evs []event.Event) error {
	session, err := json.Marshal(p.session)
	if err != nil {
		return err
	}
	head := append(append([]byte(`{"type":"session:event","sessionId":`), session...), `,"payload":`...)
	for _, ev := range evs {
		data, err := ev.AppendJSON(head[:len(head):len(head)])
		if err == nil {
			err = p.send(append(data, '}'), ev.Seq)
		}
		if err != nil {
			return err
		}
	}
	p.lag.wrote(evs)
	return nil
}

// pastEvents sends events as history and returns the new cursor.
func (p *pump) pastEvents(evs []event.Event, after int64, first *Resume, done bool) (int64, error) {
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
		if err := p.write(m, after); err != nil {
			return after, err
		}
		if first, evs = nil, evs[n:]; len(evs) == 0 {
			return after, nil
		}
	}
}
