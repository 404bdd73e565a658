// Package event defines the agent-independent events of a session, their JSON
// form and bounds, and the fold of events into items.
//
// The package contains only data and pure functions. It starts no goroutine,
// reads no clock and does no I/O, so the log, the server, the client and the
// page can share it.
package event

import (
	"strconv"
	"time"
)

// An Event is one entry of a session's log.
//
// Providers set At, Turn and Body. The session sets Session and Seq when it
// appends the event to its log; until then Seq is zero.
type Event struct {
	Session string    // session that owns the log
	Seq     int64     // position in that log: 1, 2, 3 …; a log may later remove deltas and then has gaps
	At      time.Time // when the agent produced the event
	Turn    string    // id of its turn; empty if it belongs to no turn
	Body    Body
}

// ID returns an id that is unique among the events of all sessions. It is
// derived from Session and Seq, so every reader computes the same id.
func (e Event) ID() string { return e.Session + ":" + strconv.FormatInt(e.Seq, 10) }

// Body is the type-specific part of an Event. Only the types in this package
// implement it.
type Body interface{ body() string }

// Type returns the wire name of the type of b, such as "item_delta", or "" if b
// is nil.
func Type(b Body) string {
	if b == nil {
		return ""
	}
	return b.body()
}

// Ends reports whether b is the last event of its turn.
func Ends(b Body) bool {
	switch b.(type) {
	case ResponseDone, ResponseError:
		return true
	}
	return false
}

// Decides reports whether b records a decision. The sender of a prompt or of an
// answer relies on decisions, so a decision must survive a power loss before
// anyone sees it. All other events need only survive the end of the process. A
// later ItemDone repeats the content of deltas. Other events, such as notices,
// may be missing after a power loss.
func Decides(b Body) bool {
	switch b.(type) {
	case ItemDone, ItemError, ItemCancelled, ApprovalRequested, ApprovalResolved, ResponseDone, ResponseError:
		return true
	}
	return false
}
