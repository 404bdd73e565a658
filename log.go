package runnel

import (
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

// Package store defines the interfaces of a log, so that a log does not have to
// import the engine. These are aliases of its types.
type (
	// A Log stores the events of sessions. See [store.Log].
	Log = store.Log
	// LogState describes the end of a session's log.
	LogState = store.LogState
	// An OpenTurn is a turn without a terminal event.
	OpenTurn = store.OpenTurn
	// A Checkpointer is a Log that knows positions at which a fold can start.
	// See [store.Checkpointer].
	Checkpointer = store.Checkpointer
	// A Checkpoint is a position in a log at which a fold can start.
	Checkpoint = store.Checkpoint
	// An Identified is a Log with an id that differs from the id of every copy
	// of it. See [store.Identified].
	Identified = store.Identified
	// Memory is a Log in memory, and the default of Config.Log. The zero value
	// is ready to use.
	Memory = memory.Log
)

// ErrConflict is the error of an append to a log to which another writer has
// appended.
var ErrConflict = store.ErrConflict

// CheckAppend is [store.CheckAppend] with errors of the code
// INVALID_STREAM_EVENT.
func CheckAppend(session string, head int64, evs []event.Event) error {
	if err := store.CheckAppend(session, head, evs); err != nil {
		return Safe(err)
	}
	return nil
}
