package stream

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// upserts sends whole items. A client that reads slowly gets fewer upserts.
func (p *pump) upserts(ctx context.Context) error {
	got := progress{seed: maphash.MakeSeed()}
	take := p.taker(p.takeUpserts)
	for {
		if p.feed != nil && len(p.outs) == 0 && !p.unsent { // the client has the history
			due, _ := p.pacer.Due()
			if _, err := p.feed.wait(ctx, due, take); err != nil {
				return err
			}
		}
		err := p.inTurn(ctx, func() error {
			switch {
			case p.feed != nil:
				return p.liveUpserts(ctx)
			case p.limit > 0 && !p.loaded:
				return p.upsertsFromEnd(ctx, &got)
			}
			return p.nextHistory(ctx, &got)
		})
		if err != nil {
			return err
		}
	}
}

// progress is how much a client has of a chunk of the history whose entries
// need several messages. Only the last message moves the client's cursor. If
// the work is dropped before, the pump reads the same chunk again, and leaves
// out the entries that the client has.
type progress struct {
	end   int64               // position at which the chunk ends; 0 if the client has all of it or nothing
	first int64               // position at which the chunk begins, if upsertsFromEnd has read it
	sent  map[uint64]struct{} // keys of the entries that the client has
	seed  maphash.Seed
}

// key returns the key of an entry in a chunk.
func (g *progress) key(o upsert.Out) uint64 {
	name := o.Frame() + " " + strconv.FormatInt(upsert.SeqOf(o), 10)
	if u, ok := o.(upsert.Upsert); ok {
		name += " " + u.ItemID
	}
	return maphash.String(g.seed, name)
}

// resume begins to read the history after the position that the client has
// reached.
func (p *pump) resume(ctx context.Context, got *progress) error {
	log, after := p.k.s.cfg.Gateway.Log(), p.sent.Load()
	from, err := p.k.s.cfg.Gateway.Past(p.session).Start(ctx, after)
	if err != nil {
		return err
	}
	st, err := log.State(ctx, p.session)
	if err != nil {
		return err
	}
	h := newHistoryReader(log, p.session, from, after)
	h.events, h.bytes, h.end = followedEvents, followedBytes, max(st.Head, got.end)
	h.pacer.Append = p.k.appends
	if from.Seq < after || len(from.Events) > 0 {
		if err := h.skip(ctx, after); err != nil {
			return err
		}
	}
	if got.end > 0 {
		h.stop, h.whole = got.end, true
	}
	p.history = h
	return nil
}

// nextHistory sends the next chunk of the history. After the last one, live
// upserts follow.
func (p *pump) nextHistory(ctx context.Context, got *progress) error {
	c, err := p.readHistory(ctx, got)
	if err != nil {
		return err
	}
	p.history.stop, p.history.whole = 0, false
	got.end, p.outs = c.last, c.entries
	more := c.more // c itself is not used below: it refers to what may be dropped
	if err := p.sendHistory(more, got); err != nil || more {
		return err
	}
	feed, err := p.k.s.feed(ctx, p.session, p.history.at)
	if err != nil {
		return err
	}
	p.pacer, p.feed, p.history = p.history.pacer, feed, nil
	return nil
}

// readHistory reads the next chunk of the history, in turn with the pages of the
// connection's credential.
func (p *pump) readHistory(ctx context.Context, got *progress) (chunk, error) {
	leave, err := p.k.s.readTurn(ctx)
	if err != nil {
		return chunk{}, err
	}
	defer leave()
	if p.history == nil {
		if err := p.resume(ctx, got); err != nil {
			return chunk{}, err
		}
	}
	return p.history.next(ctx)
}

// upsertsFromEnd sends the newest entries of the history. Live upserts follow.
// If the work is dropped before the client has all of these entries, the pump
// reads the same part of the log again, see progress.
func (p *pump) upsertsFromEnd(ctx context.Context, got *progress) error {
	past := p.k.s.cfg.Gateway.Past(p.session)
	p.pacer = &upsert.Pacer{Append: p.k.appends}
	if got.end == 0 {
		st, err := past.Log.State(ctx, p.session)
		if err != nil {
			return err
		}
		got.end = st.Head
	}
	leave, err := p.k.s.readTurn(ctx)
	if err != nil {
		return err
	}
	var page runnel.Page
	if got.sent == nil {
		page, err = past.Tail(ctx, p.pacer, got.end, p.limit)
	} else {
		page, err = past.TailFrom(ctx, p.pacer, got.first, got.end)
	}
	leave()
	if err != nil {
		return errUnreadable(ctx, err)
	}
	got.first, p.outs = page.First, page.Outs
	if page.More() {
		p.older = page.First
	}
	end := got.end
	if err := p.sendHistory(false, got); err != nil { // page is not used below: it refers to what may be dropped
		return err
	}
	p.feed, err = p.k.s.feed(ctx, p.session, end)
	return err
}

// sendHistory sends p.outs, the entries of a chunk, in one or more messages.
// Entries are in the order in which items appeared in the log, not in which
// they changed. The client therefore reaches a new position only when it has
// all entries of the chunk, and only the last message moves the client's
// cursor.
func (p *pump) sendHistory(more bool, got *progress) error {
	end := max(got.end, p.sent.Load())
	for {
		keys, data, err := p.historyMessage(more, end, got)
		if err != nil {
			return err
		}
		last, seq := len(p.outs) == 0, int64(0)
		if last {
			seq = end
		}
		if data == nil { // the client has everything
			p.sent.Store(end)
		} else if err = p.deliver(data, seq); err != nil && !errors.Is(err, errDropped) {
			return err
		}
		p.first = nil
		if last {
			p.loaded = p.loaded || !more
			got.end, got.sent = 0, nil
			return err
		}
		if got.sent == nil {
			got.sent = make(map[uint64]struct{})
		}
		for _, key := range keys {
			got.sent[key] = struct{}{}
		}
		if err != nil {
			return err
		}
	}
}

// historyMessage encodes the next message of a chunk, and removes its entries
// from p.outs. It returns no data if the client needs no message. end is the
// position that the client reaches with the last message of the chunk.
func (p *pump) historyMessage(more bool, end int64, got *progress) (keys []uint64, data []byte, err error) {
	m := historyMessage{Type: "session:history", SessionID: p.session, Entries: []json.RawMessage{}, Seq: p.sent.Load(), Resume: p.first}
	if p.first != nil {
		m.First = p.older
	}
	size := 0
	for len(p.outs) > 0 && len(m.Entries) < historyEntries {
		o := p.outs[0]
		key := got.key(o)
		if _, sent := got.sent[key]; !sent {
			data, err := json.Marshal(entry{o.Frame(), o})
			if err != nil {
				return nil, nil, err
			}
			if size > 0 && size+len(data) > historyBytes {
				break // encoded again for the next message
			}
			m.Entries = append(m.Entries, data)
			keys = append(keys, key)
			size += len(data)
		}
		p.outs[0] = nil
		p.outs = p.outs[1:]
	}
	if len(p.outs) == 0 {
		m.Seq, m.Done = end, !more
	}
	if len(m.Entries) == 0 && m.Resume == nil && p.loaded {
		return nil, nil, nil
	}
	data, err = json.Marshal(m)
	return keys, data, err
}

// liveUpserts reads one batch of events and sends the upserts that are due.
func (p *pump) liveUpserts(ctx context.Context) error {
	if err := p.settle(); err != nil {
		return err
	}
	oldest, err := p.readUpserts(ctx)
	for err == nil && len(p.outs) > 0 {
		err = p.sendOuts()
	}
	if err == nil || errors.Is(err, errDropped) {
		p.lag.wrote(oldest)
	}
	return err
}

// sendOuts sends the first messages of p.outs.
func (p *pump) sendOuts() error {
	n, err := p.together(len(p.outs), func(to []byte, i int) ([]byte, int64, error) {
		data, err := p.upsertMessage(to, p.outs[i])
		return data, upsert.SeqOf(p.outs[i]), err
	})
	switch {
	case err != nil:
		return err
	case n > 0:
		clear(p.outs[:n])
		p.outs = p.outs[n:]
		return p.settle()
	}
	o := p.outs[0]
	p.outs[0] = nil
	p.outs = p.outs[1:]
	seq := upsert.SeqOf(o)
	data, err := p.upsertMessage(nil, o)
	if err != nil {
		return err
	}
	return p.deliver(data, seq)
}

// upsertMessage appends the message with an upsert.
func (p *pump) upsertMessage(to []byte, o upsert.Out) ([]byte, error) {
	data, err := json.Marshal(liveMessage{o.Frame(), p.session, o})
	if to == nil {
		return data, err
	}
	return append(to, data...), err
}

// readUpserts reads one batch of events, and puts the upserts that are due into
// p.outs. It returns the time of the oldest event for the lagMeter. If
// takeUpserts has left upserts, it reads nothing.
func (p *pump) readUpserts(ctx context.Context) (oldest time.Time, err error) {
	if len(p.outs) > 0 {
		return oldest, nil
	}
	evs, err := p.feed.read(ctx)
	if err != nil {
		return oldest, err
	}
	if len(evs) == 0 {
		p.outs = p.pacer.Flush(time.Now())
		return oldest, nil
	}
	p.fold(evs)
	return p.lag.oldest(evs), nil
}

// fold folds events, and puts the upserts that are due into p.outs. It returns
// false if only a fold of the whole turn can continue: the pump then resumes
// like a client that connects again.
func (p *pump) fold(evs []event.Event) bool {
	folded := 0
	p.outs, folded = p.pacer.PushPaired(evs, time.Now()) // also flushes upserts that are due
	if folded < len(evs) {
		p.pacer, p.feed = nil, nil
		return false
	}
	return true
}
