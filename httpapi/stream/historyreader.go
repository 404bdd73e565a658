package stream

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A historyReader reads a session's history in chunks and folds them into
// items. It holds one chunk and the items that are unfinished at its end. Until
// a turn ends, the pacer also keeps a small entry for each ended item of the
// turn.
type historyReader struct {
	log     runnel.Log
	session string
	before  []event.Event // replaces the log up to at, if nothing was read yet
	at      int64         // position up to which the log was read
	after   int64         // position up to which the client has everything
	pacer   *upsert.Pacer

	events, bytes int   // approximate bounds of a chunk
	end           int64 // position at which the history ends. Default: the end of the log
	stop          int64 // position at which the next chunk ends at the latest. Default: none
	whole         bool  // the next chunk ends at stop, whatever the other bounds are
}

// newHistoryReader returns a reader of the history after position after. It
// begins to read at a checkpoint, which must not be later.
func newHistoryReader(log runnel.Log, session string, from runnel.Checkpoint, after int64) *historyReader {
	h := &historyReader{
		log: log, session: session, before: from.Events, at: from.Seq, after: after, pacer: new(upsert.Pacer),
		events: chunkEvents, bytes: chunkBytes,
	}
	h.pacer.StartWith(from.Events)
	return h
}

// next reads the next chunk and folds it. No read of the log is open when it
// returns.
func (h *historyReader) next(ctx context.Context) (chunk, error) {
	c := chunk{pacer: h.pacer, last: h.at}
	var err error
	c.entries, err = h.pacer.History(h.nextChunk(ctx, &c), h.after, time.Now())
	if errors.Is(err, upsert.ErrUnpaired) {
		if err = h.restart(ctx); err == nil {
			return h.next(ctx)
		}
	}
	h.at = c.last
	return c, err
}

// restart begins to read again at an earlier position at which no turn is open.
// The client already has everything up to h.at. The new pacer keeps the settings
// of the old one.
func (h *historyReader) restart(ctx context.Context) error {
	from, err := runnel.CutBefore(ctx, h.log, h.session, h.at)
	if err != nil {
		return err
	}
	h.at, h.before, h.after = from.Seq, nil, max(h.after, h.at)
	h.pacer = &upsert.Pacer{Append: h.pacer.Append}
	return nil
}

// skip folds the events up to position to. The client has these events, so they
// have no entries.
func (h *historyReader) skip(ctx context.Context, to int64) error {
	h.stop = to
	for {
		before := h.at
		c, err := h.next(ctx)
		if err != nil || !c.more || c.last == before {
			h.stop = 0
			return err
		}
	}
}

// nextChunk yields the events of the next chunk, and records in c where it
// ends.
func (h *historyReader) nextChunk(ctx context.Context, c *chunk) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range h.before {
			if !yield(ev, nil) {
				return
			}
		}
		h.before = nil
		n, size, between := 0, 0, true // between: the last event neither began nor continued an item
		for ev, err := range h.log.Read(ctx, h.session, h.at) {
			if err == nil && h.end > 0 && ev.Seq > h.end {
				return
			}
			if err == nil && h.stop > 0 && ev.Seq > h.stop {
				c.more = true
				return
			}
			if err == nil && !h.whole && (n >= h.events || size >= chunkBytes || size >= h.bytes && between && !h.pacer.Unfinished()) {
				c.more = true
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
			n++
			size += event.Weight(ev.Body)
			c.last = ev.Seq
			between = endsItem(ev.Body)
		}
	}
}

// endsItem reports whether b neither begins nor continues an item.
func endsItem(b event.Body) bool {
	switch b.(type) {
	case event.ItemStart, event.ItemDelta:
		return false
	}
	return true
}
