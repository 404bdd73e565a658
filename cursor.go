package runnel

import (
	"context"
	"iter"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Bounds of one batch of a [Cursor]. A reader that is slow to pass a batch on
// holds no more than that, and no read of the log stays open meanwhile.
const (
	batchEvents = 512
	batchBytes  = 32 << 10 // estimated by event.Weight
)

// batchKept bounds the room for a batch, in events, that a waiting cursor keeps.
const batchKept = 16

// A Cursor is the position of one reader in a session's log. It returns the
// events after that position: first those that the log already has, then new ones
// as they are appended.
//
// A Cursor starts no goroutine. Its methods must not be called concurrently.
type Cursor struct {
	log     Log
	session string
	at      int64
	batch   []event.Event // room for the next batch
	timer   *time.Timer   // made by the first wait that has a deadline
}

// NewCursor returns a cursor behind position after of the session's log.
func NewCursor(log Log, session string, after int64) *Cursor {
	return &Cursor{log: log, session: session, at: after}
}

// Position returns the position of the newest event that was returned, or the
// one that the cursor was made with.
func (c *Cursor) Position() int64 { return c.at }

// Next returns the next batch, which has at least one event. It waits until
// there is one. When ctx ends it returns the cause. The batch is valid until the
// next call.
func (c *Cursor) Next(ctx context.Context) ([]event.Event, error) {
	return c.NextUntil(ctx, time.Time{})
}

// NextUntil is [Cursor.Next], but stops waiting at the deadline: then it returns
// no events and no error. The zero deadline never comes.
func (c *Cursor) NextUntil(ctx context.Context, deadline time.Time) ([]event.Event, error) {
	for {
		grown := c.log.Grown(c.session, c.at) // before Read, so that no wake-up is lost
		evs, err := c.Read(ctx)
		if err != nil || len(evs) > 0 {
			return evs, err
		}
		if ended, err := c.wait(ctx, grown, deadline); ended || err != nil {
			return nil, err
		}
	}
}

// Read returns the next batch without waiting; none at the end of the log. The
// batch is valid until the next call.
func (c *Cursor) Read(ctx context.Context) ([]event.Event, error) {
	evs, size, at := c.batch[:0], 0, c.at
	clear(evs[:cap(evs)])
	var failed error
	for ev, err := range c.log.Read(ctx, c.session, c.at) {
		if err != nil {
			failed = err
			break
		}
		evs, at = append(evs, ev), ev.Seq
		if size += event.Weight(ev.Body); len(evs) >= batchEvents || size >= batchBytes {
			break
		}
	}
	if c.batch = evs; cap(evs) > batchKept {
		c.batch = nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(evs) == 0:
		return nil, failed
	}
	c.at = at // a failed read is repeated after what it returned
	return evs, nil
}

// Events yields the events one by one, and waits for more. It stops when its
// caller does. When ctx ends it yields the cause.
func (c *Cursor) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for {
			grown := c.log.Grown(c.session, c.at) // before Read, so that no wake-up is lost
			for ev, err := range c.log.Read(ctx, c.session, c.at) {
				if ctx.Err() != nil {
					break // the wait below reports the cause
				}
				if err != nil {
					yield(event.Event{}, err)
					return
				}
				c.at = ev.Seq
				if !yield(ev, nil) {
					return
				}
			}
			if _, err := c.wait(ctx, grown, time.Time{}); err != nil {
				yield(event.Event{}, err)
				return
			}
		}
	}
}

// Wait returns once the log has events after the cursor's position, and reports
// true, or at the deadline, and reports false. The zero deadline never comes.
// When ctx ends it returns the cause.
func (c *Cursor) Wait(ctx context.Context, deadline time.Time) (grown bool, err error) {
	ended, err := c.wait(ctx, c.log.Grown(c.session, c.at), deadline)
	return !ended && err == nil, err
}

// wait returns when the log has grown, or reports that the deadline came first.
// When ctx has ended it returns the cause.
func (c *Cursor) wait(ctx context.Context, grown <-chan struct{}, deadline time.Time) (ended bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	select {
	case <-grown:
		return false, nil
	case <-c.alarm(deadline):
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// alarm returns a channel that fires at the deadline; nil if there is none. The
// timer is never stopped: since Go 1.23 one whose channel nobody receives from
// costs nothing.
func (c *Cursor) alarm(deadline time.Time) <-chan time.Time {
	if deadline.IsZero() {
		return nil
	}
	if c.timer == nil {
		c.timer = time.NewTimer(time.Until(deadline))
	} else {
		c.timer.Reset(time.Until(deadline))
	}
	return c.timer.C
}

// Follow yields the events after position after and then waits for more: it is
// [Cursor.Events] of a new cursor. When ctx ends it yields the cause.
func Follow(ctx context.Context, log Log, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		NewCursor(log, session, after).Events(ctx)(yield)
	}
}
