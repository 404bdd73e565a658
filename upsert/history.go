package upsert

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// History folds a session's events. It returns the changes for a reader that
// has seen everything up to position after: each item that changed since then,
// once, in its current state and in order of first appearance. All other frames
// are placed between the items, in the order of the log. If after is zero, it
// returns the whole history.
//
// The result contains the same items as a live stream, with one difference: a
// cancelled item has all its text. A live reader may lack text that the Pacer
// held back.
//
// events must start at or before the first event of the turn that contains
// after.
func History(events iter.Seq2[event.Event, error], after int64, now time.Time) ([]Out, error) {
	return new(Pacer).History(events, after, now)
}

// History is [History] for a log that is read in stretches. p must be new, or
// the Pacer of the preceding stretch. History returns the changes of this
// stretch. It then drops the content of ended items, so p holds only the
// content of unfinished items, however long a turn is.
//
// Push continues with the event after the last stretch. Text that the previous
// Pacer of the reader may have held back is due within BatchTimeout, so a
// resumed reader misses nothing.
func (p *Pacer) History(events iter.Seq2[event.Event, error], after int64, now time.Time) ([]Out, error) {
	h := historyFold{Pacer: p, after: after, from: p.folded, now: now}
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

// Unfinished reports whether any item has not ended. If a stretch ends here,
// its result contains such an item as it is now, and the stretch in which the
// item ends contains it again.
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

// A historyFold is one call of [Pacer.History].
type historyFold struct {
	*Pacer
	after int64 // the reader has everything up to this position
	from  int64 // end of the preceding stretch; everything up to here was returned
	now   time.Time
	outs  []Out // nil at the slot of an item that is not (yet) returned
}

// listUnfinished reserves a slot for each item that the preceding stretches
// left unfinished, so that items stay in order of first appearance.
func (h *historyFold) listUnfinished() {
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

func (h *historyFold) list(e *entry) {
	if !e.listed {
		e.listed, e.slot = true, len(h.outs)
		h.outs = append(h.outs, nil)
	}
}

func (h *historyFold) fold(ev event.Event) {
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
		h.reducer.dropTurn(ev.Turn)
	}
}

// fill writes the entries of t that changed in this stretch to their slots.
func (h *historyFold) fill(t *turn) {
	for _, e := range t.entries {
		if !e.listed || e.seq <= h.from {
			continue
		}
		e.sent, e.base, e.shown = true, e.tokens.total, shown{}
		switch {
		case e.seq > h.after:
			status := StatusUpdate
			if e.versions == 1 {
				status = StatusCreate
			}
			e.undirty()
			h.showed(e)
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
