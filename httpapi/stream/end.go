package stream

import (
	"context"
	"errors"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Reasons for which the server ends a stream.
var (
	errShutdown = errors.New("httpapi: the server is shutting down")
	errDeleted  = runnel.Fail(runnel.SessionNotFound, "the session was deleted")
)

// An endMessage is the goodbye frame of a stream: the position to resume after,
// and why the server ends the stream.
type endMessage struct {
	Type      string         `json:"type"`
	SessionID string         `json:"sessionId"`
	Seq       int64          `json:"seq" doc:"Position to resume after."`
	Reason    string         `json:"reason" enum:"server_shutdown,error"`
	Error     *reply.Problem `json:"error,omitempty"`
}

// The reasons in an endMessage.
const reasonShutdown, reasonError = "server_shutdown", "error"

// deletions ends the streams of a session that is deleted.
type deletions struct {
	mu sync.Mutex
	by map[string]map[*context.CancelCauseFunc]struct{}
}

// add registers a stream of a session. When the session is deleted, the method
// deleted calls end with errDeleted. The caller of add calls forget when the
// stream has ended.
func (d *deletions) add(session string, end context.CancelCauseFunc) (forget func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]map[*context.CancelCauseFunc]struct{})
	}
	if d.by[session] == nil {
		d.by[session] = make(map[*context.CancelCauseFunc]struct{})
	}
	d.by[session][&end] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.by[session], &end); len(d.by[session]) == 0 {
			delete(d.by, session)
		}
	}
}

func (d *deletions) deleted(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for end := range d.by[session] {
		(*end)(errDeleted)
	}
}

func (d *deletions) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.by)
}
