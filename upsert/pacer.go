package upsert

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A Pacer decides when a changed item is sent to one reader. The zero value is
// ready to use. Its settings must not change after the first event, and time
// must not run backwards.
//
//   - The first text of an item is sent at once. After that the item is sent
//     when it has grown by more than the current entry of Gradient. Each upsert
//     has the whole content.
//   - Text waits at most BatchTimeout, counted from the oldest unsent text.
//   - A tool call is sent when it starts, when its arguments are final and when
//     it has its output. It is one item with one id.
//   - The end of an item or a turn, an approval, a notice and usage are sent at
//     once. A cancelled item is not sent again.
type Pacer struct {
	// Gradient lists the growth, in tokens, after which an item is sent again.
	// The last entry repeats. Once the last entry is less than a third of the
	// size last sent, that third replaces it. The gradient alone therefore
	// sends at most eight times the final size of an item. Default: 10, 20, 40,
	// 80, 120.
	Gradient []int

	// NoFirstPaint delays the first text of an item like any other text.
	// Default: it is sent at once.
	NoFirstPaint bool

	// BatchTimeout is the longest time that text waits. Default: 1 s.
	BatchTimeout time.Duration

	// Append sends the growth of an item as an [Append]. The whole item is sent
	// when the reader does not have it, when its text has doubled since it was
	// last sent whole, when something else in it changes, and at its end. The
	// last entry of Gradient does not grow then. Default: every upsert is whole.
	Append bool

	reducer reducer
	waiting []wait // ordered by entry.since, oldest first
	folded  int64  // position of the newest event that History folded

	outline int             // how many of the next events are those of an Outline
	begun   map[string]bool // open turns that began with an Outline
}

// pacing is the state that a Pacer keeps for an entry.
type pacing struct {
	sent   bool // the reader has received it
	dirty  bool // it changed since it was last sent
	since  time.Time
	base   int // number of tokens when it was last sent
	step   int // index into the gradient
	gen    int // incremented whenever it stops being dirty
	paced  bool
	listed bool
	slot   int // index into the outs of a stretch, if listed
	shown  shown
}

// A wait records that e became dirty. It is void if e was sent since then.
type wait struct {
	e   *entry
	gen int
}

var gradient = []int{10, 20, 40, 80, 120}

// Push folds ev and returns the frames that are due now.
func (p *Pacer) Push(ev event.Event, now time.Time) []Out {
	var outs []Out
	changed, out := p.reducer.fold(ev)
	for _, e := range changed {
		if p.crossed(e) || e.urgent {
			outs = append(outs, p.send(e, now))
		} else {
			p.hold(e, now)
		}
	}
	if out != nil {
		outs = append(outs, out)
	}
	if event.Ends(ev.Body) {
		p.reducer.dropTurn(ev.Turn)
	}
	return append(outs, p.Flush(now)...)
}

// PushAll folds events that accumulated while the reader was busy. It returns
// the frames that are due now, without upserts that a later one replaces, so a
// slow reader gets fewer upserts. It keeps all ends of items and turns,
// approvals, notices and usage. An approval still follows everything that
// preceded it.
func (p *Pacer) PushAll(evs []event.Event, now time.Time) []Out {
	var outs []Out
	for _, ev := range evs {
		outs = append(outs, p.Push(ev, now)...)
	}
	return newest(outs)
}

// newest drops each upsert and append that a later upsert replaces, and joins
// consecutive appends of an item. It never does so across an approval. If it
// drops a create, the later update becomes the create.
func newest(outs []Out) []Out {
	kept := len(outs)              // outs[kept:] is the result so far
	latest := make(map[string]int) // item id → index into outs
	for _, out := range slices.Backward(outs) {
		switch o := out.(type) {
		case Approval:
			clear(latest)
		case Append:
			if at, again := latest[o.ItemID]; again {
				if next, ok := outs[at].(Append); ok {
					outs[at] = Append{ItemID: o.ItemID, Offset: o.Offset, Text: o.Text + next.Text, Seq: next.Seq}
				}
				continue
			}
			latest[o.ItemID] = kept - 1
		case Upsert:
			if at, again := latest[o.ItemID]; again && (o.Status == StatusCreate || o.Status == StatusUpdate) {
				if u, ok := outs[at].(Upsert); ok {
					if o.Status == StatusCreate && u.Status == StatusUpdate {
						u.Status = StatusCreate
						outs[at] = u
					}
					continue
				}
			}
			latest[o.ItemID] = kept - 1
		}
		kept--
		outs[kept] = out
	}
	return outs[kept:]
}

// Due returns the time of the next call of Flush. ok is false if none is
// needed.
func (p *Pacer) Due() (at time.Time, ok bool) {
	if p.trim(); len(p.waiting) == 0 {
		return time.Time{}, false
	}
	return p.waiting[0].e.since.Add(p.timeout()), true
}

// Flush returns the upserts whose text has waited for BatchTimeout.
func (p *Pacer) Flush(now time.Time) []Out {
	var outs []Out
	for p.trim(); len(p.waiting) > 0; p.trim() {
		e := p.waiting[0].e
		if now.Sub(e.since) < p.timeout() {
			break
		}
		outs = append(outs, p.send(e, now))
	}
	return outs
}

// Close ends the stream of events. It returns each unfinished item as an error
// with the content so far, because only the agent can complete an item.
// Afterwards the Pacer is in its initial state.
func (p *Pacer) Close(now time.Time) []Out {
	return p.Destroy("the stream ended before this was finished", now)
}

// Destroy is like Close, but the errors have reason as their message. If reason
// is an [event.CancelReason], the items end as if they had been cancelled for
// it: process_death and timeout have their own errors, and for user_cancel
// Destroy returns nothing.
func (p *Pacer) Destroy(reason string, now time.Time) []Out {
	fault, ok := faultOf(event.CancelReason(reason))
	if !ok {
		fault = unfinished(reason)
	}
	var outs []Out
	for _, t := range p.reducer.turns {
		for _, e := range t.entries {
			if !e.state.over() && reason != string(event.ReasonUserCancel) {
				e.state, e.fault = failed, fault
				outs = append(outs, p.send(e, now))
			}
		}
	}
	p.reducer, p.waiting, p.folded = reducer{}, nil, 0
	return outs
}

// crossed reports whether e has grown enough to be sent. It advances the step
// of e past all entries of the gradient that e has outgrown.
func (p *Pacer) crossed(e *entry) bool {
	g := p.Gradient
	if len(g) == 0 {
		g = gradient
	}
	grown, last := e.tokens.total-e.base, len(g)-1
	threshold := g[min(e.step, last)]
	if e.step >= last && !p.Append {
		threshold = max(threshold, e.base/3)
	}
	enough := grown > threshold
	for e.step < last && grown > g[e.step] {
		e.step++
	}
	return enough || !e.sent && !p.NoFirstPaint
}

func (p *Pacer) hold(e *entry, now time.Time) {
	if !e.dirty {
		e.dirty, e.since = true, now
		p.waiting = append(p.waiting, wait{e, e.gen})
	}
}

func (p *Pacer) send(e *entry, now time.Time) Out {
	more := StatusUpdate
	if !e.sent {
		more = StatusCreate
	}
	e.sent, e.base = true, e.tokens.total
	e.undirty()
	if a, ok := p.growth(e); ok {
		return a
	}
	p.showed(e)
	return p.reducer.upsert(e, more, now)
}

// undirty marks e as clean and voids its wait.
func (e *entry) undirty() {
	e.dirty = false
	e.gen++
}

// trim removes void waits from the front.
func (p *Pacer) trim() {
	n := 0
	for n < len(p.waiting) && p.waiting[n].gen != p.waiting[n].e.gen {
		n++
	}
	clear(p.waiting[:n])
	p.waiting = p.waiting[n:]
}

func (p *Pacer) timeout() time.Duration {
	if p.BatchTimeout > 0 {
		return p.BatchTimeout
	}
	return time.Second
}
