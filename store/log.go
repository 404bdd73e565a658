package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

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

// An Identified is a Log that is another than its copies. A position counts only
// in the log that it was read from: a copy that was restored goes on by itself.
type Identified interface {
	// LogID returns what identifies the log. It stays the same over restarts.
	LogID() string
}

// A Sizer is a Log that knows how much it keeps.
type Sizer interface {
	// Size returns how many bytes the events of a session take, about.
	Size(ctx context.Context, session string) (int64, error)
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

// ErrInvalidEvent means that an event cannot stand where it was to be appended.
var ErrInvalidEvent = errors.New("store: invalid event")

type invalidEvent struct{ error }

func (invalidEvent) Is(target error) bool { return target == ErrInvalidEvent }

// CheckAppend returns an error that is [ErrInvalidEvent] and says why evs cannot
// stand after position head of the session's log. Every Log refuses what
// it refuses.
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
			return invalidEvent{err}
		}
	}
	return nil
}
