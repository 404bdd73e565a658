package gateway

import (
	"context"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// maxFiles bounds the files of its own that an agent can name in a session.
const maxFiles = 100

// reported is what the agent of a session said about itself, in this process or
// before it.
type reported struct {
	config []event.ConfigOption // as of the last report
	files  []event.AgentFile
}

// take adds a report.
func (r *reported) take(b event.SessionUpdated) {
	if b.Config != nil {
		r.config = b.Config
	}
	for _, f := range b.Files {
		if !slices.Contains(r.files, f) && len(r.files) < maxFiles {
			r.files = append(r.files, f)
		}
	}
}

// readReported returns what the log of a session has of it.
func readReported(ctx context.Context, log runnel.Log, id string) (r reported, err error) {
	for ev, err := range log.Read(ctx, id, 0) {
		if err != nil {
			return r, storeError(err)
		}
		if b, ok := ev.Body.(event.SessionUpdated); ok {
			r.take(b)
		}
	}
	return r, nil
}

// recall reads what was reported before the session was opened, once.
func (e *entry) recall(ctx context.Context, log runnel.Log) error {
	e.mu.Lock()
	done := e.recalled
	e.mu.Unlock()
	if done {
		return nil
	}
	r, err := readReported(ctx, log, e.rec.ID)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.recalled { // what came meanwhile is newer than the log was
		r.take(event.SessionUpdated{Config: e.told.config, Files: e.told.files})
		e.told, e.recalled = r, true
	}
	return nil
}
