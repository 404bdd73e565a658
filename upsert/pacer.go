package upsert

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A Pacer decides when a changed item is worth sending to one reader. The
// zero value is ready to use; settings must not change after the first event,
// and time must not run backwards.
//
//   - The first text of an item is sent at once. From then on it is sent when
//     it has grown by more than the current entry of Gradient, each time with
//     its whole content.
//   - Nothing waits longer than BatchTimeout, counted from the oldest text
//     that was not sent.
//   - A tool call is sent when it starts, when its arguments are final and
//     when it is answered, as one item under its own id.
//   - The end of an item or a turn, an approval, a notice and usage are sent
//     at once. An item that was cancelled is not sent again.
type Pacer struct {
	// Gradient is how much an item must grow, in tokens, before it is sent
	// again. The last entry repeats until it is less than a third of what was
	// sent last: from then on that third counts, so that the gradient sends at
	// most eight times as much of an item as the item has in the end. Default:
	// 10, 20, 40, 80, 120.
	Gradient []int

	// NoFirstPaint holds the first text of an item back like any other.
	// Default: it is sent at once.
	NoFirstPaint bool

	// BatchTimeout is how long text may wait for more. Default: 1 s.
	BatchTimeout time.Duration

	reducer reducer
	waiting []wait // by since, oldest first
	folded  int64  // position of the newest event that History folded
}

// pacing is what a Pacer remembers of an entry.
type pacing struct {
	sent   bool // the reader has had it
	dirty  bool // it changed since
	since  time.Time
	base   int // tokens when it was last sent
	step   int // into the gradient
	gen    int // how often it stopped being dirty
	paced  bool
	listed bool
	slot   int // in History's list, if listed
}

// A wait says that e became dirty. It is void if e was sent since.
type wait struct {
	e   *entry
	gen int
}

var gradient = []int{10, 20, 40, 80, 120}

// Push adds ev and returns what is due now.
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
		p.reducer.forget(ev.Turn)
	}
	return append(outs, p.Flush(now)...)
}

// PushAll adds events that piled up while the reader was busy. It returns what
// is due now, without the upserts that a later one replaces: a slow reader
// gets fewer. Ends of items and turns, approvals, notices and usage are all
// there, and an approval still comes after everything that came before it.
func (p *Pacer) PushAll(evs []event.Event, now time.Time) []Out {
	var outs []Out
	for _, ev := range evs {
		outs = append(outs, p.Push(ev, now)...)
	}
	return newest(outs)
}

// newest drops each upsert that a later one replaces, between any two
// approvals. An item that the reader did not know stays a create.
func newest(outs []Out) []Out {
	kept := len(outs)              // outs[kept:] is the result so far
	latest := make(map[string]int) // item → its place in there
	for _, out := range slices.Backward(outs) {
		switch o := out.(type) {
		case Approval:
			clear(latest)
		case Upsert:
			at, again := latest[o.ItemID]
			if again && (o.Status == StatusCreate || o.Status == StatusUpdate) {
				if u := outs[at].(Upsert); o.Status == StatusCreate && u.Status == StatusUpdate {
					u.Status = StatusCreate
					outs[at] = u
				}
				continue
			}
			latest[o.ItemID] = kept - 1
		}
		kept--
		outs[kept] = out
	}
	return outs[kept:]
}

// Due returns when Flush is to be called next, if at all.
func (p *Pacer) Due() (at time.Time, ok bool) {
	if p.trim(); len(p.waiting) == 0 {
		return time.Time{}, false
	}
	return p.waiting[0].e.since.Add(p.timeout()), true
}

// Flush returns what has waited long enough.
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

// Close ends the stream of events. What has not ended by then was interrupted,
// and is an error with the content so far; an item is complete only if the
// agent said so. The Pacer is then as new.
func (p *Pacer) Close(now time.Time) []Out {
	return p.Destroy("the stream ended before this was finished", now)
}

// Destroy is Close for a reader that ends for a reason of its own, which is the
// message of the errors. An [event.CancelReason] has the effect that it has on
// an item: after user_cancel nothing is sent.
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

// crossed reports whether e has grown enough to be sent, and moves it past
// the entries of the gradient that it has outgrown.
func (p *Pacer) crossed(e *entry) bool {
	g := p.Gradient
	if len(g) == 0 {
		g = gradient
	}
	grown, last := e.tokens.total-e.base, len(g)-1
	threshold := g[min(e.step, last)]
	if e.step >= last {
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

func (p *Pacer) send(e *entry, now time.Time) Upsert {
	more := StatusUpdate
	if !e.sent {
		more = StatusCreate
	}
	e.sent, e.base = true, e.tokens.total
	e.undirty()
	return p.reducer.upsert(e, more, now)
}

// undirty voids the wait of e, if there is one.
func (e *entry) undirty() {
	e.dirty = false
	e.gen++
}

// trim drops void waits from the front.
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
