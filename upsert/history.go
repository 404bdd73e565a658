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
	changes, err := h.stretch(events)
	if err != nil {
		return nil, err
	}
	outs := make([]Out, len(changes))
	for i, c := range changes {
		outs[i] = c.Out
	}
	return outs, nil
}

// A Change is a frame of a history with its place in the log.
type Change struct {
	Out   Out
	First int64 // position of the event with which it began
	Seq   int64 // position of the event that ended the item, or of the only event
	Open  bool  // the item can change, the approval has no answer, or the turn that started has not ended; Seq is then that of the newest event
}

// Changes folds a stretch of a session's events like [Pacer.History], for a
// history that is read backward. It returns each item in the stretch in which
// it ends, also an item that was cancelled. In addition, it returns every item
// that is unfinished at the end of the stretch, as an open Change. All other
// frames are returned in the order of the log.
func (p *Pacer) Changes(events iter.Seq2[event.Event, error], now time.Time) ([]Change, error) {
	h := historyFold{Pacer: p, from: p.folded, now: now, ends: true}
	changes, err := h.stretch(events)
	for i, c := range changes {
		changes[i].Open = p.Open(c.Out)
	}
	return changes, err
}

// Open reports whether a later event may concern o, which p has returned: an
// item that has not ended, an approval without an answer, or the start of a
// turn that has not ended.
func (p *Pacer) Open(o Out) bool { return p.reducer.open(o) }

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
	ends  bool // items are returned when they end, see [Pacer.Changes]

	changes []Change // without Out at the slot of an item that is not (yet) returned
}

func (h *historyFold) stretch(events iter.Seq2[event.Event, error]) ([]Change, error) {
	h.listUnfinished()
	for ev, err := range events {
		if err == nil && h.unpaired(ev) {
			err = ErrUnpaired
		}
		if err != nil {
			return nil, err
		}
		h.fold(ev)
	}
	for _, t := range h.reducer.turns {
		h.fill(t)
		h.reducer.release(t)
	}
	return slices.DeleteFunc(h.changes, func(c Change) bool { return c.Out == nil }), nil
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
		e.listed, e.slot = true, len(h.changes)
		h.changes = append(h.changes, Change{})
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
		h.changes = append(h.changes, Change{Out: out, First: ev.Seq, Seq: ev.Seq})
	}
	if e := h.reducer.entries[endedItem(ev.Body)]; e != nil && e.settled == 0 && h.reducer.final(e) {
		e.settled = ev.Seq
	}
	if event.Ends(ev.Body) {
		t := h.reducer.turn(ev.Turn)
		for _, e := range t.entries {
			if e.settled == 0 {
				e.settled = ev.Seq
			}
		}
		h.fill(t)
		h.reducer.dropTurn(ev.Turn)
	}
}

// endedItem returns the id of the item that b ends, or "".
func endedItem(b event.Body) string {
	switch b := b.(type) {
	case event.ItemDone:
		return b.ItemID
	case event.ItemError:
		return b.ItemID
	case event.ItemCancelled:
		return b.ItemID
	}
	return ""
}

// fill writes the entries of t that changed in this stretch to their slots.
func (h *historyFold) fill(t *turn) {
	for _, e := range t.entries {
		if !e.listed || e.seq <= h.from && !h.ends {
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
			h.changes[e.slot] = Change{h.reducer.upsert(e, status, h.now), e.first, cmp.Or(e.settled, e.seq), false}
		case e.paced && !e.state.over():
			h.hold(e, h.now)
		default:
			e.undirty()
		}
	}
}
