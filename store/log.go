package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/runnel-dev/runnel/event"
)

// ErrConflict is the error of an Append whose head is not the end of the log,
// because another writer has appended to it.
var ErrConflict = errors.New("runnel: log has another writer")

// A Log stores the events of sessions. Implementations pass the suites of
// package storetest. An implementation that opens an existing log flushes it to
// the disk first, because the server acts on its content.
type Log interface {
	// Append adds evs after position head. Their Seq must be head+1, head+2 and
	// so on (see [CheckAppend]). It returns ErrConflict if head is not the end
	// of the log: a session has one writer.
	//
	// When Append returns, readers can see evs, and evs survive the end of the
	// process. If any of them [event.Decides], all of them survive a power loss
	// too. Append adds all of evs or none. If it returns the error of ctx, it
	// has added none.
	Append(ctx context.Context, session string, head int64, evs ...event.Event) error

	// Read yields the events after position after, in order, and stops at the
	// end of the log. Positions may have gaps: once a turn has ended, a log may
	// remove the deltas of its done items, because ItemDone repeats their
	// content. It removes nothing else.
	Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error]

	// Grown returns a channel that is closed once the log is longer than after.
	Grown(session string, after int64) <-chan struct{}

	// State returns the end of a session's log and its open turns. It returns
	// the zero LogState for a session without events.
	State(ctx context.Context, session string) (LogState, error)
}

// An Identified log has an id that differs from the id of every copy of it. A
// position is valid only in the log from which it was read, since a restored
// copy continues with other events.
type Identified interface {
	// LogID returns the id of the log. It stays the same over restarts, unless
	// the log may have lost events that readers saw, for example by a power
	// loss.
	LogID() string
}

// A TailReader is a Log that keeps the newest events of its sessions in memory.
type TailReader interface {
	// Tail appends to buf the events of a session after position after, in
	// order and without gaps, and returns the result. It stops at the end of
	// the log, after max events, or once they have more than size bytes
	// together. At the end of the log it adds nothing. It returns false, and
	// the caller uses Read, if the first of these events is not in memory.
	Tail(session string, after int64, buf []event.Event, max, size int) ([]event.Event, bool)
}

// A Deliverer is a Log that can pass new events to readers that wait for them,
// in the goroutine that appends the events. That saves the reader's goroutine a
// wake-up for each event.
type Deliverer interface {
	// Deliver makes Append call take with the events of a session after
	// position after, in order and without gaps, before Append returns. take
	// must not block, append, or call the session, and must not keep the slice.
	// After take has returned false, or if the log cannot deliver some of the
	// events, the log calls take no more and sends a value on d.Woken. Deliver
	// returns nil if there are such events already, or if the log cannot tell.
	Deliver(session string, after int64, take func([]event.Event) bool) *Delivery
}

// A Delivery is a reader that waits for a [Deliverer].
type Delivery struct {
	Woken chan struct{} // holds a value once the log delivers no more

	// Stop ends the delivery: take is not running once Stop has returned, and
	// is never called again.
	Stop func()
}

// A Sizer is a Log that can report the size of a session's events.
type Sizer interface {
	// Size returns the approximate size of the events of a session, in bytes.
	Size(ctx context.Context, session string) (int64, error)
}

// A SizeLister is a Log that can return the sizes of all its logs at once.
type SizeLister interface {
	// Sizes returns what [Sizer] returns for each session that has events. It
	// may lack events of the last second.
	Sizes(ctx context.Context) (map[string]int64, error)
}

// A HeadLister is a Log that can return the ends of all its logs at once.
type HeadLister interface {
	// Heads returns the position of the newest event of each session that has
	// events.
	Heads(ctx context.Context) (map[string]int64, error)
}

// A Checkpointer is a Log that knows positions other than the beginning at
// which a fold of a log can start. Checkpoints are a cache: the log is complete
// without them, and an implementation may drop any of them.
type Checkpointer interface {
	// Cut returns the newest position at or before at at which no turn is open.
	// A fold that starts there needs no earlier event. The beginning of the
	// log, 0, is such a position.
	Cut(ctx context.Context, session string, at int64) (int64, error)

	// Checkpoint returns the newest checkpoint at or before at: one that was
	// put, or one without events at the position that Cut returns. It skips a
	// damaged checkpoint.
	Checkpoint(ctx context.Context, session string, at int64) (Checkpoint, error)

	// PutCheckpoint stores c, for a position that the log has. The caller does
	// not depend on it: after a crash or on a full disk c may be missing.
	PutCheckpoint(ctx context.Context, session string, c Checkpoint) error
}

// A Checkpoint is a position in a log at which a fold can start.
type Checkpoint struct {
	Seq int64

	// Events replace all events of the log up to Seq. They are events of the
	// log, of which some are joined. See upsert.Outline.
	Events []event.Event
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

// ErrInvalidEvent means that an event is invalid or has the wrong position or
// session for the log.
var ErrInvalidEvent = errors.New("store: invalid event")

type invalidEvent struct{ error }

func (invalidEvent) Is(target error) bool { return target == ErrInvalidEvent }

// CheckAppend returns an error that is [ErrInvalidEvent] if evs cannot be
// appended after position head of the session's log. The error names the field.
// Every Log rejects the events that CheckAppend rejects.
func CheckAppend(session string, head int64, evs []event.Event) error {
	for i, ev := range evs {
		err := ev.Validate()
		switch {
		case err != nil:
		case session == "" || ev.Session != session:
			err = errors.New("event: sessionId: differs from the session of the log")
		case head < 0 || ev.Seq != head+int64(i)+1:
			err = fmt.Errorf("event: seq: %d cannot follow %d", ev.Seq, head+int64(i))
		}
		if err != nil {
			return invalidEvent{err}
		}
	}
	return nil
}
