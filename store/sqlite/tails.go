package sqlite

import (
	"container/list"
	"sync"

	"github.com/runnel-dev/runnel/event"
)

// tails keeps the newest events of the most recently used sessions in memory,
// so that a reader at the end of a log needs no query. It also wakes waiting
// readers.
type tails struct {
	limits tailLimits

	mu     sync.Mutex
	bySess map[string]*tail
	recent list.List // tails that hold events, most recently used first
	bytes  int       // of the events in all tails
	pinned []*tail   // tails with pinned events
	closed bool
}

// tailLimits bounds the events and bytes of one tail, and the bytes of all
// tails.
type tailLimits struct{ events, bytes, allBytes int }

// A tail is the end of one log. It exists while it holds events or a reader may
// be waiting for more.
type tail struct {
	session string
	head    int64         // position of the newest event; unknown until a lookup or an append
	grown   chan struct{} // nil unless a reader waits
	lookUps int           // number of running lookups of head
	kept    []kept        // the last events up to head, oldest first
	bytes   int
	pinned  int           // how many of the last events are not in the database yet, so must be kept
	elem    *list.Element // element in recent; nil without events

	deliveries []*delivery // readers at the end of the log that Append serves
}

type kept struct {
	ev    event.Event
	bytes int
}

const (
	unknown   = -1
	pageSize  = 256     // maximum number of events that a reader loads at once
	pageBytes = 1 << 20 // and maximum bytes of payload

	// firstBytes is the size of a reader's first page. Many readers take few
	// events.
	firstBytes = 32 << 10
	overhead   = 200 // approximate bytes of an event in addition to its payload
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

// add appends acknowledged events and wakes the readers that wait for them.
// Pinned events are kept until unpin is called.
func (ts *tails) add(session string, rows []row, pinned bool) {
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
	if pinned {
		if t.pinned == 0 {
			ts.pinned = append(ts.pinned, t)
		}
		t.pinned += len(rows)
	}
	t.wake()
	ts.touch(t)
	ts.trim(t)
}

// trim drops the oldest events of t beyond the limits of one tail, and then the
// events of the least recently used tails beyond the limit of all tails.
func (ts *tails) trim(t *tail) { // ts.mu is held
	over := 0
	for bytes := t.bytes; over < len(t.kept)-t.pinned && (len(t.kept)-over > ts.limits.events || bytes > ts.limits.bytes); over++ {
		bytes -= t.kept[over].bytes
	}
	ts.drop(t, over)
	for e := ts.recent.Back(); e != nil && ts.bytes > ts.limits.allBytes; {
		last := e.Value.(*tail)
		e = e.Prev()
		ts.drop(last, len(last.kept)-last.pinned)
	}
}

// unpin allows trim to drop events that add had pinned. It is called after a
// commit that inserted all events of the journal into the database.
func (ts *tails) unpin() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.pinned {
		if t.pinned = 0; len(t.kept) > 0 {
			ts.trim(t)
		}
	}
	clear(ts.pinned)
	ts.pinned = ts.pinned[:0]
}

// unstored returns the bytes of the events of a session that are not in the
// database yet.
func (ts *tails) unstored(session string) (bytes int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil {
		for _, k := range t.kept[len(t.kept)-t.pinned:] {
			bytes += int64(k.bytes - overhead)
		}
	}
	return bytes
}

// drop removes the n oldest events from t.
func (ts *tails) drop(t *tail, n int) { // ts.mu is held
	for _, k := range t.kept[:n] {
		t.bytes -= k.bytes
		ts.bytes -= k.bytes
	}
	// Only tails uses t.kept, since page returns copies. Reslicing leaves the
	// remaining events where they are; append moves them when it needs space.
	clear(t.kept[:n])
	if t.kept = t.kept[n:]; len(t.kept) > 0 {
		return
	}
	t.kept = nil
	if t.elem != nil {
		ts.recent.Remove(t.elem)
		t.elem = nil
	}
	ts.forgetIdle(t)
}

// forgetIdle removes a tail that has no events and for which nobody waits.
func (ts *tails) forgetIdle(t *tail) { // ts.mu is held
	if len(t.kept) == 0 && t.grown == nil && t.lookUps == 0 && len(t.deliveries) == 0 {
		delete(ts.bySess, t.session)
	}
}

func (ts *tails) touch(t *tail) { // ts.mu is held
	if t.elem == nil {
		t.elem = ts.recent.PushFront(t)
		return
	}
	ts.recent.MoveToFront(t.elem)
}

func (t *tail) wake() {
	if t.grown != nil {
		close(t.grown)
		t.grown = nil
	}
}

// wakeAll also wakes the readers that Append serves.
func (t *tail) wakeAll() {
	t.wake()
	for _, d := range t.deliveries {
		d.wake()
	}
}

// head returns the end of a session's log, if it is known.
func (ts *tails) head(session string) (int64, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.bySess[session]
	if t == nil || t.head == unknown {
		return 0, false
	}
	return t.head, true
}

// heads returns the ends of the logs that are known.
func (ts *tails) heads() map[string]int64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	heads := make(map[string]int64)
	for session, t := range ts.bySess {
		if t.head > 0 {
			heads[session] = t.head
		}
	}
	return heads
}

// page returns up to pageSize events in (after, end], or nil if the event after
// position after is not in memory.
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

// tailAfter is [Store.Tail].
func (ts *tails) tailAfter(session string, after int64, buf []event.Event, most, size int) ([]event.Event, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.bySess[session]
	if ts.closed || t == nil || t.head == unknown {
		return buf, false
	}
	if after >= t.head {
		return buf, true
	}
	first := t.head - int64(len(t.kept)) + 1
	if after+1 < first {
		return buf, false
	}
	ts.touch(t)
	for _, k := range t.kept[after+1-first:] {
		if len(buf) >= most || size < 0 {
			break
		}
		buf, size = append(buf, k.ev), size-k.bytes
	}
	return buf, true
}

// grown returns a channel that is closed once the log is longer than after. If
// the end of the log is unknown, lookUp is not nil: the caller must look it up
// and call learn. Events that are appended meanwhile also close the channel.
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

// learn stores the looked-up end of the log of t; head is unknown if the lookup
// failed. It returns false if the log was deleted since the lookup began. The
// caller must then start again.
//
// learn ignores head if the tail holds events. The database may already have
// later events, which add will append, and positions in memory are counted back
// from t.head.
func (ts *tails) learn(t *tail, head int64) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.lookUps--
	if len(t.kept) == 0 {
		t.head = max(t.head, head)
	}
	return ts.bySess[t.session] == t
}

// cut drops the events of a session up to and including position last.
func (ts *tails) cut(session string, last int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil && len(t.kept) > 0 {
		n := int64(len(t.kept))
		ts.drop(t, int(min(max(last-(t.head-n), 0), n-int64(t.pinned))))
	}
}

// forget removes the state of a deleted session and wakes its readers.
func (ts *tails) forget(session string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.bySess[session]; t != nil {
		t.wakeAll()
		t.pinned = 0
		ts.drop(t, len(t.kept))
		delete(ts.bySess, session)
	}
}

// close wakes all readers. Later calls of grown return a closed channel, and
// Read then returns the error of a closed store.
func (ts *tails) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, t := range ts.bySess {
		t.wakeAll()
	}
}

var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
