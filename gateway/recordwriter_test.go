package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// slowRecords is a catalogue that takes a second for the record of a session
// while slow is true.
type slowRecords struct {
	store.Catalogue
	slow atomic.Bool
}

func (c *slowRecords) PutSession(ctx context.Context, s store.Session) error {
	if c.slow.Load() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.Catalogue.PutSession(ctx, s)
}

// A server that stops withdraws the approvals that wait for a person. It writes
// the records of their sessions, even if its context ends during the write.
func TestStopWithOpenQuestionWritesTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		cat, logged := &slowRecords{Catalogue: d.cat}, new(bytes.Buffer)
		g := d.open(t, func(c *Config) {
			c.Catalogue, c.Logger = cat, slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		id := d.create(t, g)
		send(t, g, id, asks("ls"))
		d.until(t, id, is[event.ApprovalRequested])
		<-time.After(time.Minute) // until the record is written
		cat.slow.Store(true)
		closeIt(t, g)
		if logged.Len() > 0 {
			t.Errorf("logged %s", logged)
		}
		rec, err := d.cat.Session(t.Context(), id)
		if err != nil || rec.LastTurn != event.StatusCancelled {
			t.Errorf("the record is %+v, %v", rec, err)
		}
	})
}
