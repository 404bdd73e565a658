// Package event is the vocabulary of the gateway: what an agent did, in words
// that do not depend on which agent it was, and how those words fold into items.
//
// It holds data and pure functions only. Nothing here starts a goroutine, reads
// a clock or does I/O, so that the log, the server, the client and the page can
// all share it.
package event

import (
	"strconv"
	"time"
)

// An Event is one entry of a session's log.
//
// Providers fill in At, Turn and Body. The session stamps Session and Seq when
// it appends the event to its log; until then Seq is zero.
type Event struct {
	Session string    // session that owns the log
	Seq     int64     // position in that log: 1, 2, 3 … without holes
	At      time.Time // when the agent produced it, not when we saw it
	Turn    string    // turn it belongs to; empty between turns
	Body    Body
}

// ID identifies e among all events of all sessions. It is derived, so that it
// is the same for every reader.
func (e Event) ID() string { return e.Session + ":" + strconv.FormatInt(e.Seq, 10) }

// Body is the part of an Event that differs by type.
// Only the types in this package implement it.
type Body interface{ body() string }

// Type returns the event's type as it is called on the wire, such as
// "item_delta".
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

// Decides reports whether b records a decision: something the sender of a
// prompt or of an answer relies on, and which must therefore survive the loss
// of power before anyone is told of it. All other events need only survive the
// death of this process: a later ItemDone repeats what they said.
func Decides(b Body) bool {
	switch b.(type) {
	case ItemDone, ItemError, ItemCancelled, ApprovalRequested, ApprovalResolved, ResponseDone, ResponseError:
		return true
	}
	return false
}
