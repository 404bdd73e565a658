package sqlite

import (
	"container/list"
	"sync"

	"github.com/runnel-dev/runnel/event"
)

// tails keeps the newest events of the sessions that were written last, so that
// a reader at the end of a log need not ask the database, and wakes readers.
type tails struct {
	limits tailLimits

	mu     sync.Mutex
	bySess map[string]*tail
	recent list.List // tails that hold events, written or read last in front
	bytes  int       // of all tails
	closed bool
}

// tailLimits bound what is kept: in one tail, and of bytes in all of them.
type tailLimits struct{ events, bytes, allBytes int }

// A tail is the end of one log. It exists as long as it holds events or someone
// may wait for more.
type tail struct {
	session string
	head    int64         // position of the newest event; unknown until someone looked it up
	grown   chan struct{} // nil unless someone waits
	lookUps int           // how many are looking up head
	kept    []kept        // the last events up to head, oldest first
	bytes   int
	place   *list.Element // in recent; nil without events
}

type kept struct {
	ev    event.Event
	bytes int
}

const (
	unknown   = -1
	pageSize  = 256     // events that a reader takes at once
	pageBytes = 1 << 20 // and of payload

	// A reader that takes little and comes again is given little at first.
	firstBytes = 32 << 10
	overhead   = 200 // bytes an event takes beside its payload, about
)

func newTails(limits tailLimits) *tails {
	return &tails{limits: limits, bySess: make(map[string]*tail)}
}

func (ts *tails) tail(session string) *tail { // ts.mu is held
	t := ts.bySess[session]
	if t == nil {
		t = &tail{session: session, head: unknown}
		ts.bySess[session] = t
	}
	return t
}

// add appends what has been committed and wakes those who wait for it.
func (ts *tails) add(session string, rows []row) {
	if len(rows) == 0 {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.tail(session)
	for _, r := range rows {
		k := kept{r.Event, len(r.payload) + overhead}
		t.kept = append(t.kept, k)
		t.bytes += k.bytes
		ts.bytes += k.bytes
	}
	t.head = rows[len(rows)-1].Seq
	t.wake()
	ts.touch(t)
	over := 0
	for bytes := t.bytes; len(t.kept)-over > ts.limits.events || bytes > ts.limits.bytes; over++ {
		bytes -= t.kept[over].bytes
	}
	ts.drop(t, over)
	for ts.bytes > ts.limits.allBytes {
		last := ts.recent.Back().Value.(*tail)
		ts.drop(last, len(last.kept))
	}
}

// drop forgets the n oldest events that t holds.
func (ts *tails) drop(t *tail, n int) { // ts.mu is held
	for _, k := range t.kept[:n] {
		t.bytes -= k.bytes
		ts.bytes -= k.bytes
	}
	// Nobody else has t.kept: readers copy what they take. Moving the rest is
	// put off until it is worth it.
	clear(t.kept[:n])
	if t.kept = t.kept[n:]; len(t.kept) > 0 {
		return
	}
	t.kept = nil
	if t.place != nil {
		ts.recent.Remove(t.place)
		t.place = nil
	}
	if t.grown == nil && t.lookUps == 0 {
		delete(ts.bySess, t.session)
	}
}

func (ts *tails) touch(t *tail) { // ts.mu is held
	if t.place == nil {
		t.place = ts.recent.PushFront(t)
		return
	}
	ts.recent.MoveToFront(t.place)
}

func (t *tail) wake() {
	if t.grown != nil {
		close(t.grown)
		t.grown = nil
	}
}

// head returns where the log of a session ends, if that is known.
func (ts *tails) head(session string) (int64, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.bySess[session]
	if t == nil || t.head == unknown {
		return 0, false
	}
	return t.head, true
}

// page returns the events after position after, up to end and to pageSize, if
// they are here.
func (ts *tails) page(session string, after, end int64) []event.Event {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.bySess[session]
	if t == nil || len(t.kept) == 0 {
		return nil
	}
	first := t.head - int64(len(t.kept)) + 1
	if after+1 < first || after >= t.head {
		return nil
	}
	ts.touch(t)
	from := t.kept[after+1-first:]
	from = from[:min(int64(len(from)), end-after, pageSize)]
	evs := make([]event.Event, len(from))
	for i, k := range from {
		evs[i] = k.ev
	}
	return evs
}

// grown returns a channel that is closed once the log is longer than after. If
// it is not known where the log ends, lookUp is not nil: find out and tell learn.
// What is appended meanwhile is not missed.
func (ts *tails) grown(session string, after int64) (grown <-chan struct{}, lookUp *tail) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return closed, nil
	}
	t := ts.tail(session)
	if t.head > after {
		return closed, nil
	}
	if t.grown == nil {
		t.grown = make(chan struct{})
	}
	if t.head != unknown {
		return t.grown, nil
	}
	t.lookUps++
	return t.grown, t
}

// learn reports where the log of t ended a moment ago; unknown if that could not
// be found out. It returns false if the log was deleted since then: look again.
//
// A tail that holds events knows its end: the database may have later events
// already, and add brings them. Their positions are counted back from head.
func (ts *tails) learn(t *tail, head int64) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.lookUps--
	if len(t.kept) == 0 {
		t.head = max(t.head, head)
	}
	return ts.bySess[t.session] == t
}

// cut drops the events of a session up to position last.
func (ts *tails) cut(session string, last int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil && len(t.kept) > 0 {
		n := int64(len(t.kept))
		ts.drop(t, int(min(max(last-(t.head-n), 0), n)))
	}
}

// forget drops what is known of a session that was deleted.
func (ts *tails) forget(session string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil {
		t.wake()
		ts.drop(t, len(t.kept))
		delete(ts.bySess, session)
	}
}

// close wakes everyone, for ever: reading then says that the store is closed.
func (ts *tails) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, t := range ts.bySess {
		t.wake()
	}
}

var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
