package upsert

import (
	"iter"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// History folds a session's events and returns what a reader that has seen
// everything up to position after lacks: each item that changed since, once,
// as it is now, in the order in which items appeared; between them, in the
// order of the log, everything else. With after zero that is all there is.
//
// The items are those that a live reader ends up with, except that a cancelled
// item has all its text; a live reader may lack what was being held back.
//
// The events begin at the latest with the first of the turn that holds after.
func History(events iter.Seq2[event.Event, error], after int64, now time.Time) ([]Out, error) {
	return new(Pacer).History(events, after, now)
}

// History is [History], and leaves p, which must be new, where the events end:
// Push goes on with the next one. Text that a Pacer may have held back before
// the reader left is due within BatchTimeout, so that a resumed reader misses
// nothing.
func (p *Pacer) History(events iter.Seq2[event.Event, error], after int64, now time.Time) ([]Out, error) {
	var outs []Out // nil where an item has its place but is not wanted (yet)
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		changed, out := p.book.fold(ev)
		for _, e := range changed {
			if !e.listed {
				e.listed, e.slot = true, len(outs)
				outs = append(outs, nil)
			}
			e.paced = !e.urgent && (e.versions > 1 || p.NoFirstPaint)
		}
		if out != nil && ev.Seq > after {
			outs = append(outs, out)
		}
		if event.Ends(ev.Body) {
			p.fill(outs, p.book.turn(ev.Turn), after, now)
			p.book.forget(ev.Turn)
		}
	}
	for _, t := range p.book.turns {
		p.fill(outs, t, after, now)
	}
	return compact(outs), nil
}

// fill puts the entries of t in their places.
func (p *Pacer) fill(outs []Out, t *turn, after int64, now time.Time) {
	for _, e := range t.entries {
		if !e.listed {
			continue
		}
		e.sent, e.base = true, e.tokens.total
		switch {
		case e.seq > after && e.versions == 1:
			outs[e.slot] = p.book.upsert(e, StatusCreate, now)
		case e.seq > after:
			outs[e.slot] = p.book.upsert(e, StatusUpdate, now)
		case e.paced && !e.state.over():
			p.hold(e, now)
		}
	}
}

func compact(outs []Out) []Out {
	kept := outs[:0]
	for _, out := range outs {
		if out != nil {
			kept = append(kept, out)
		}
	}
	return kept
}
