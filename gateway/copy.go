package gateway

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// copyLog appends the events of one session to the empty log of another, and
// the title of the copy if it has one.
func copyLog(ctx context.Context, log runnel.Log, from, to string, title event.SessionUpdated) error {
	return fillLog(ctx, log, to, func(yield func(event.Event, error) bool) {
		for ev, err := range log.Read(ctx, from, 0) {
			if b, ok := ev.Body.(event.SessionUpdated); ok {
				b.AgentSessionID = "" // the copy gets its own conversation id
				ev.Body = b
			}
			if !yield(ev, err) {
				return
			}
		}
		if title.Title != "" {
			yield(event.Event{At: time.Now(), Body: title}, nil)
		}
	})
}

// fillLog appends events to the empty log of a session, in batches. It sets
// their session and their seq.
func fillLog(ctx context.Context, log runnel.Log, id string, events func(yield func(event.Event, error) bool)) error {
	const (
		batchSize  = 256
		batchBytes = 1 << 20 // a batch is in memory several times, and an event may have megabytes
	)
	var head int64
	weight := 0
	batch := make([]event.Event, 0, batchSize)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := log.Append(ctx, id, head, batch...)
		head += int64(len(batch))
		batch, weight = make([]event.Event, 0, batchSize), 0
		return err
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		ev.Session, ev.Seq = id, head+int64(len(batch))+1
		batch = append(batch, ev)
		if weight += event.Weight(ev.Body); len(batch) == batchSize || weight >= batchBytes {
			if err := flush(); err != nil {
				return storeError(err)
			}
		}
	}
	if err := flush(); err != nil {
		return storeError(err)
	}
	return nil
}
