package sqlite

import (
	"slices"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// maxDelivered is how many readers of one session the appending goroutine
// serves. Further readers are woken instead, so that appending never takes long.
const maxDelivered = 8

// deliveredAtOnce is the largest number of events that the appending goroutine
// passes to a reader at once. More events come in bursts, in which a reader's
// own goroutine works beside the appending one.
const deliveredAtOnce = 16

// A delivery is a reader that waits for Append to pass it new events.
type delivery struct {
	woken chan struct{}

	mu   sync.Mutex // held while take runs
	at   int64      // position of the last event that take received
	take func([]event.Event) bool
	buf  []event.Event
	over bool // take must not be called any more
}

// Deliver implements [store.Deliverer].
func (s *Store) Deliver(session string, after int64, take func([]event.Event) bool) *store.Delivery {
	d := &delivery{woken: make(chan struct{}, 1), at: after, take: take}
	if !s.tails.deliverTo(session, d) {
		return nil
	}
	return &store.Delivery{Woken: d.woken, Stop: func() {
		s.tails.remove(session, d)
		d.mu.Lock() // waits for take
		defer d.mu.Unlock()
		d.over = true
	}}
}

// deliver passes what was appended to the readers that wait for it.
func (ts *tails) deliver(session string) {
	var to [maxDelivered]*delivery
	for _, d := range to[:ts.deliveries(session, to[:])] {
		d.mu.Lock()
		if !d.over && !d.next(ts, session) {
			d.over = true
			d.wake()
		}
		d.mu.Unlock()
	}
}

// next passes the events after d.at to take. It returns false if the reader's
// own goroutine has to read on. The caller holds d.mu.
func (d *delivery) next(ts *tails, session string) bool {
	evs, ok := ts.tailAfter(session, d.at, d.buf[:0], deliveredAtOnce+1, firstBytes)
	if d.buf = evs; !ok || len(evs) > deliveredAtOnce {
		return false
	}
	if len(evs) == 0 {
		return true
	}
	d.at = evs[len(evs)-1].Seq
	more := d.take(evs)
	clear(evs)
	head, known := ts.head(session)
	return more && known && head == d.at // a batch of more bytes is left to the reader
}

func (d *delivery) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// deliverTo adds d to the readers of a session, unless the log may have events
// after d.at already.
func (ts *tails) deliverTo(session string, d *delivery) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.bySess[session]
	if ts.closed || t == nil || t.head != d.at || len(t.deliveries) >= maxDelivered {
		return false
	}
	t.deliveries = append(t.deliveries, d)
	return true
}

// deliveries copies the readers that wait in a session.
func (ts *tails) deliveries(session string, to []*delivery) int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil {
		return copy(to, t.deliveries)
	}
	return 0
}

func (ts *tails) remove(session string, d *delivery) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil {
		t.deliveries = slices.DeleteFunc(t.deliveries, func(o *delivery) bool { return o == d })
		ts.forgetIdle(t)
	}
}
