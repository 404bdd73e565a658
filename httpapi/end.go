package httpapi

import (
	"context"
	"errors"
	"sync"

	"github.com/runnel-dev/runnel"
)

// Why streams end that their clients would have gone on with.
var (
	errShutdown = errors.New("httpapi: the server is shutting down")
	errDeleted  = runnel.Fail(runnel.SessionNotFound, "the session was deleted")
)

// An endMessage is the last of a stream that ends here: what the client has, and
// why there is no more now.
type endMessage struct {
	Type      string   `json:"type"`
	SessionID string   `json:"sessionId"`
	Seq       int64    `json:"seq" doc:"the position to resume after"`
	Reason    string   `json:"reason" enum:"server_shutdown,error"`
	Error     *problem `json:"error,omitempty"`
}

const reasonShutdown, reasonError = "server_shutdown", "error"

// endings are what is to be told when a session is deleted.
type endings struct {
	mu sync.Mutex
	by map[string]map[*context.CancelCauseFunc]struct{}
}

// add has end called with errDeleted once the session is deleted. The caller
// calls forget when that is of no interest any more.
func (e *endings) add(session string, end context.CancelCauseFunc) (forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = make(map[string]map[*context.CancelCauseFunc]struct{})
	}
	if e.by[session] == nil {
		e.by[session] = make(map[*context.CancelCauseFunc]struct{})
	}
	e.by[session][&end] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.by[session], &end); len(e.by[session]) == 0 {
			delete(e.by, session)
		}
	}
}

func (e *endings) deleted(session string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for end := range e.by[session] {
		(*end)(errDeleted)
	}
}
