package stream

import (
	"context"
	"iter"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A historyReader reads a session's history in stretches and folds them into
// items. Of a turn it holds a stretch and the items that are unfinished at its
// end; and until the turn ends its pacer keeps a small entry for each item that
// has ended.
type historyReader struct {
	log     runnel.Log
	session string
	at      int64 // position up to which it has been read
	after   int64 // the reader has everything up to here
	pacer   *upsert.Pacer

	events, bytes int   // of a stretch, about
	end           int64 // position up to which it is read. Default: the end of the log
}

// newHistoryReader begins at position from, which is at or before the beginning
// of the turn that holds after.
func newHistoryReader(log runnel.Log, session string, from, after int64) *historyReader {
	return &historyReader{
		log: log, session: session, at: from, after: after, pacer: new(upsert.Pacer),
		events: chunkEvents, bytes: chunkBytes,
	}
}

// next folds a stretch. No read of the log is open when it returns.
func (h *historyReader) next(ctx context.Context) (chunk, error) {
	c := chunk{pacer: h.pacer, last: h.at}
	var err error
	c.entries, err = h.pacer.History(h.stretch(ctx, &c), h.after, time.Now())
	h.at = c.last
	return c, err
}

// stretch yields the events of the next stretch and notes in c where it ends.
func (h *historyReader) stretch(ctx context.Context, c *chunk) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		n, size, between := 0, 0, true // between items
		for ev, err := range h.log.Read(ctx, h.session, h.at) {
			if err == nil && h.end > 0 && ev.Seq > h.end {
				return
			}
			if err == nil && (n >= h.events || size >= chunkBytes || size >= h.bytes && between && !h.pacer.Unfinished()) {
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

// endsItem reports whether no item may be unfinished after b.
func endsItem(b event.Body) bool {
	switch b.(type) {
	case event.ItemStart, event.ItemDelta:
		return false
	}
	return true
}
