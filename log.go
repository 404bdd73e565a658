package runnel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel/event"
)

// ErrConflict means that someone else has appended to the log.
var ErrConflict = errors.New("runnel: log has another writer")

// A Log keeps the events of sessions. Implementations pass storetest. One that
// is opened again makes durable what it finds: it will be acted on.
type Log interface {
	// Append adds evs after position head; their Seq is head+1, head+2 … (see
	// [CheckAppend]). It returns ErrConflict if head is no longer the end of the
	// log: a session has one writer. When it returns, readers can see evs, and
	// they survive the death of this process; if any of them [event.Decides],
	// loss of power too. It adds all of evs or none; if ctx ends it, none.
	Append(ctx context.Context, session string, head int64, evs ...event.Event) error

	// Read yields the events after position after, in order, and stops at the end.
	// Positions may jump: once a turn is over a log may remove the deltas of its
	// finished items, since ItemDone says it all, and nothing else.
	Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error]

	// Grown returns a channel that is closed once the log is longer than after.
	Grown(session string, after int64) <-chan struct{}

	// State says where the log of a session ends and what is unfinished in it.
	// A session without events has the zero LogState.
	State(ctx context.Context, session string) (LogState, error)
}

// LogState describes the end of a session's log.
type LogState struct {
	Head int64      // position of the newest event
	Open []OpenTurn // turns that have begun and have no terminal event, oldest first
}

// An OpenTurn is a turn without a terminal event.
type OpenTurn struct {
	Turn  string
	After int64 // position just before its first event
}

// CheckAppend reports, as INVALID_STREAM_EVENT, why evs cannot stand after
// position head of the session's log. Every Log refuses what it refuses.
func CheckAppend(session string, head int64, evs []event.Event) error {
	for i, ev := range evs {
		err := ev.Validate()
		switch {
		case err != nil:
		case session == "" || ev.Session != session:
			err = errors.New("event: sessionId: not that of the log")
		case head < 0 || ev.Seq != head+int64(i)+1:
			err = fmt.Errorf("event: seq: %d cannot follow %d", ev.Seq, head+int64(i))
		}
		if err != nil {
			return Fail(InvalidStreamEvent, err.Error())
		}
	}
	return nil
}

// Memory is a Log that forgets when it is dropped. The zero value is ready to use.
type Memory struct {
	mu   sync.Mutex
	logs map[string]*memoryLog
}

type memoryLog struct {
	events []event.Event // append-only: a prefix never changes
	open   []OpenTurn
	grown  chan struct{} // closed and replaced by Append
}

func (m *Memory) log(session string) *memoryLog { // m.mu is held
	l := m.logs[session]
	if l == nil {
		if m.logs == nil {
			m.logs = make(map[string]*memoryLog)
		}
		l = &memoryLog{grown: make(chan struct{})}
		m.logs[session] = l
	}
	return l
}

// Append implements [Log].
func (m *Memory) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if err := CheckAppend(session, head, evs); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l := m.log(session)
	if int64(len(l.events)) != head {
		return ErrConflict
	}
	if len(evs) == 0 {
		return nil
	}
	for _, ev := range evs {
		l.open = trackOpen(l.open, ev)
	}
	l.events = append(l.events, evs...)
	close(l.grown)
	l.grown = make(chan struct{})
	return nil
}

// trackOpen folds ev into the list of open turns.
func trackOpen(open []OpenTurn, ev event.Event) []OpenTurn {
	if ev.Turn == "" {
		return open
	}
	i := slices.IndexFunc(open, func(o OpenTurn) bool { return o.Turn == ev.Turn })
	switch {
	case event.Ends(ev.Body) && i >= 0:
		return slices.Delete(open, i, i+1)
	case !event.Ends(ev.Body) && i < 0:
		return append(open, OpenTurn{ev.Turn, ev.Seq - 1})
	}
	return open
}

// Read implements [Log].
func (m *Memory) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		m.mu.Lock()
		evs := m.log(session).events
		m.mu.Unlock()
		for _, ev := range evs[min(max(after, 0), int64(len(evs))):] {
			if ctx.Err() != nil {
				yield(event.Event{}, ctx.Err())
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Grown implements [Log].
func (m *Memory) Grown(session string, after int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.log(session)
	if int64(len(l.events)) > after {
		return closed
	}
	return l.grown
}

// State implements [Log].
func (m *Memory) State(_ context.Context, session string) (LogState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.log(session)
	return LogState{int64(len(l.events)), slices.Clone(l.open)}, nil
}

var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
