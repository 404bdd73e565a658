package upsert

import (
	"cmp"
	"iter"
	"slices"
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

// History is [History] for a past that is read in stretches: p is new, or was
// left by History where the events of the stretch before ended. It returns what
// changed in this stretch. Of items that have ended it then keeps only that they
// have: however long a turn is, p holds the content of what is unfinished.
//
// Push goes on with the event after the last stretch. Text that a Pacer may have
// held back before the reader left is due within BatchTimeout, so that a resumed
// reader misses nothing.
func (p *Pacer) History(events iter.Seq2[event.Event, error], after int64, now time.Time) ([]Out, error) {
	h := stretch{Pacer: p, after: after, from: p.folded, now: now}
	h.listUnfinished()
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		h.fold(ev)
	}
	for _, t := range p.reducer.turns {
		h.fill(t)
		p.reducer.release(t)
	}
	return compact(h.outs), nil
}

// Unfinished reports whether there is an item that has not ended: a stretch that
// ends now returns it, and the one in which it ends returns it again.
func (p *Pacer) Unfinished() bool {
	for _, t := range p.reducer.turns {
		for _, e := range t.entries {
			if e.versions > 0 && !e.state.over() {
				return true
			}
		}
	}
	return false
}

// A stretch is one call of [Pacer.History].
type stretch struct {
	*Pacer
	after int64 // the reader has everything up to here
	from  int64 // end of the stretch before: that has been returned
	now   time.Time
	outs  []Out // nil where an item has its place but is not wanted (yet)
}

// listUnfinished gives a place to each item that the stretches before left
// unfinished, so that they stand in the order in which they appeared.
func (h *stretch) listUnfinished() {
	var open []*entry
	for _, t := range h.reducer.turns {
		for _, e := range t.entries {
			if e.listed = false; e.versions > 0 && !e.released {
				open = append(open, e)
			}
		}
	}
	slices.SortStableFunc(open, func(a, b *entry) int { return cmp.Compare(a.first, b.first) })
	for _, e := range open {
		h.list(e)
	}
}

func (h *stretch) list(e *entry) {
	if !e.listed {
		e.listed, e.slot = true, len(h.outs)
		h.outs = append(h.outs, nil)
	}
}

func (h *stretch) fold(ev event.Event) {
	h.folded = ev.Seq
	changed, out := h.reducer.fold(ev)
	for _, e := range changed {
		h.list(e)
		e.paced = !e.urgent && (e.versions > 1 || h.NoFirstPaint)
	}
	if out != nil && ev.Seq > h.after {
		h.outs = append(h.outs, out)
	}
	if event.Ends(ev.Body) {
		h.fill(h.reducer.turn(ev.Turn))
		h.reducer.forget(ev.Turn)
	}
}

// fill puts the entries of t that changed in this stretch in their places.
func (h *stretch) fill(t *turn) {
	for _, e := range t.entries {
		if !e.listed || e.seq <= h.from {
			continue
		}
		e.sent, e.base = true, e.tokens.total
		switch {
		case e.seq > h.after:
			status := StatusUpdate
			if e.versions == 1 {
				status = StatusCreate
			}
			e.undirty()
			h.outs[e.slot] = h.reducer.upsert(e, status, h.now)
		case e.paced && !e.state.over():
			h.hold(e, h.now)
		default:
			e.undirty()
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
