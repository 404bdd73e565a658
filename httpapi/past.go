package httpapi

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A past reads a session's history stretch by stretch. However long a turn is, no
// more of it is held than a stretch and what is unfinished at its end: turns,
// items, calls without an answer, questions. That is folded again at the front of
// the next stretch, where it changes nothing that the reader has.
type past struct {
	log     runnel.Log
	session string
	at      int64 // position up to which it has been read
	after   int64 // the reader has everything up to here

	events, bytes int // of a stretch, about
	open          map[string]*unfinished
}

// unfinished is what is open in a turn.
type unfinished struct {
	start   []event.Event            // of the turn
	items   map[string][]event.Event // by item: those that have not ended, and calls without an answer
	calls   map[string]string        // call id → item
	outputs map[string]string        // item → id of the call it answers
	asked   map[string]event.Event   // by approval
}

// newPast begins at position from, which is at or before the beginning of the
// turn that holds after.
func newPast(log runnel.Log, session string, from, after int64) *past {
	return &past{log: log, session: session, at: from, after: after, events: chunkEvents, bytes: chunkBytes, open: make(map[string]*unfinished)}
}

// next folds a stretch. Nothing of the store is open when it returns.
func (p *past) next(ctx context.Context) (chunk, error) {
	c := chunk{pacer: new(upsert.Pacer), last: p.at}
	var err error
	c.entries, err = c.pacer.History(p.stretch(ctx, &c), max(p.after, p.at), time.Now())
	p.at = c.last
	return c, err
}

func (p *past) stretch(ctx context.Context, c *chunk) iter.Seq2[event.Event, error] {
	front := p.front()
	return func(yield func(event.Event, error) bool) {
		for _, ev := range front {
			if !yield(ev, nil) {
				return
			}
		}
		n, size := 0, 0
		for ev, err := range p.log.Read(ctx, p.session, p.at) {
			if err == nil && (n >= p.events || size >= p.bytes) {
				c.more = true
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
			n++
			size += event.Weight(ev.Body)
			c.last = ev.Seq
			p.keep(ev)
		}
	}
}

// front returns what is unfinished, in the order of the log, with the growth of
// each item in one piece.
func (p *past) front() (evs []event.Event) {
	for _, t := range p.open {
		evs = append(evs, t.start...)
		for id, of := range t.items {
			t.items[id] = joined(of)
			evs = append(evs, t.items[id]...)
		}
		evs = slices.AppendSeq(evs, maps.Values(t.asked))
	}
	slices.SortFunc(evs, func(a, b event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return evs
}

// joined makes one delta of all but the first, which tells an item that has grown
// from one that was shown once.
func joined(evs []event.Event) []event.Event {
	var text strings.Builder
	out, deltas := evs[:0:0], 0
	for _, ev := range evs {
		d, ok := ev.Body.(event.ItemDelta)
		if deltas++; !ok || deltas <= 2 {
			if out = append(out, ev); !ok {
				deltas = 0
			}
			continue
		}
		if deltas == 3 {
			text.Reset()
			text.WriteString(out[len(out)-1].Body.(event.ItemDelta).DeltaContent)
		}
		text.WriteString(d.DeltaContent)
		d.DeltaContent = text.String()
		ev.Body = d
		out[len(out)-1] = ev
	}
	return out
}

// keep notes what ev leaves unfinished, or ends.
func (p *past) keep(ev event.Event) {
	if event.Ends(ev.Body) {
		delete(p.open, ev.Turn)
		return
	}
	t := p.open[ev.Turn]
	if t == nil {
		switch ev.Body.(type) {
		case event.ResponseStart, event.ItemStart, event.ItemDone, event.ApprovalRequested:
		default:
			return
		}
		t = &unfinished{
			items: make(map[string][]event.Event), calls: make(map[string]string),
			outputs: make(map[string]string), asked: make(map[string]event.Event),
		}
		p.open[ev.Turn] = t
	}
	t.keep(ev)
}

func (t *unfinished) keep(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		t.start = append(t.start[:0], ev)
	case event.ItemStart:
		t.items[b.ItemID] = append(t.items[b.ItemID], ev)
		switch b.ItemType {
		case event.TypeFunctionCall:
			t.calls[b.CallID] = b.ItemID
		case event.TypeFunctionCallOutput:
			t.outputs[b.ItemID] = b.CallID
		}
	case event.ItemDelta:
		if of, ok := t.items[b.ItemID]; ok {
			t.items[b.ItemID] = append(of, ev)
		}
	case event.ItemDone:
		switch f := b.FinalItem.(type) {
		case event.FunctionCall: // until it is answered
			t.items[b.ItemID] = append(t.items[b.ItemID], ev)
			t.calls[f.CallID] = b.ItemID
		case event.FunctionCallOutput:
			t.answered(b.ItemID, f.CallID)
		default:
			delete(t.items, b.ItemID)
		}
	case event.ItemError:
		t.answered(b.ItemID, t.outputs[b.ItemID])
	case event.ItemCancelled:
		if b.Reason == event.ReasonUserCancel { // another may answer the call
			delete(t.items, b.ItemID)
		} else {
			t.answered(b.ItemID, t.outputs[b.ItemID])
		}
	case event.ApprovalRequested:
		t.asked[b.Approval.ID] = ev
	case event.ApprovalResolved:
		delete(t.asked, b.ApprovalID)
	}
}

// answered ends an item, and the call that it answers.
func (t *unfinished) answered(item, call string) {
	delete(t.items, item)
	delete(t.outputs, item)
	if call != "" {
		delete(t.items, t.calls[call])
		delete(t.calls, call)
	}
}
