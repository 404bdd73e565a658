package runnel

import (
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

// The contract of a log stands in the package store, below the engine, so that a
// log need not know the engine. It has its names here, too.
type (
	// A Log keeps the events of sessions. See [store.Log].
	Log = store.Log
	// LogState describes the end of a session's log.
	LogState = store.LogState
	// An OpenTurn is a turn without a terminal event.
	OpenTurn = store.OpenTurn
	// An Identified is a Log that is another than its copies. See
	// [store.Identified].
	Identified = store.Identified
	// Memory is a Log that forgets when it is dropped, and the default. The zero
	// value is ready to use.
	Memory = memory.Log
)

// ErrConflict means that someone else has appended to the log.
var ErrConflict = store.ErrConflict

// CheckAppend is [store.CheckAppend], with the code INVALID_STREAM_EVENT.
func CheckAppend(session string, head int64, evs []event.Event) error {
	if err := store.CheckAppend(session, head, evs); err != nil {
		return Safe(err)
	}
	return nil
}
