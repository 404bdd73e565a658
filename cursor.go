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
	batchBytes  = 512 << 10 // estimated by event.Weight
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
	var evs []event.Event
	err := c.follow(ctx, deadline, func() (stop bool, err error) {
		evs, err = c.Read(ctx)
		return len(evs) > 0, err
	})
	return evs, err
}

// Read returns the next batch without waiting; none at the end of the log. The
// batch is valid until the next call.
func (c *Cursor) Read(ctx context.Context) ([]event.Event, error) {
	evs, size, at := c.batch[:0], 0, c.at
	clear(evs[:cap(evs)])
	err := c.read(ctx, func(ev event.Event) bool {
		evs = append(evs, ev)
		size += event.Weight(ev.Body)
		return len(evs) < batchEvents && size < batchBytes
	})
	if c.batch = evs; cap(evs) > batchKept {
		c.batch = nil
	}
	if len(evs) > 0 && ctx.Err() == nil {
		return evs, nil // an error comes again after them
	}
	c.at = at
	return nil, err
}

// Events yields the events one by one, and waits for more. It stops when its
// caller does. When ctx ends it yields the cause.
func (c *Cursor) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		stop := false
		err := c.follow(ctx, time.Time{}, func() (bool, error) {
			err := c.read(ctx, func(ev event.Event) bool {
				stop = !yield(ev, nil)
				return !stop
			})
			return stop, err
		})
		if err != nil && !stop {
			yield(event.Event{}, err)
		}
	}
}

// read passes the events that the log has to f until f returns false.
func (c *Cursor) read(ctx context.Context, f func(event.Event) bool) error {
	for ev, err := range c.log.Read(ctx, c.session, c.at) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		c.at = ev.Seq
		if !f(ev) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// follow calls read until it says to stop, and waits between the calls until the
// log has grown. At the deadline it returns.
func (c *Cursor) follow(ctx context.Context, deadline time.Time, read func() (stop bool, err error)) error {
	for {
		grown := c.log.Grown(c.session, c.at) // before read, so that no wake-up is lost
		if stop, err := read(); stop || err != nil {
			return err
		}
		select {
		case <-grown:
		case <-c.alarm(deadline):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// alarm returns a channel that fires at the deadline; nil if there is none. A
// timer for whose channel nobody waits costs nothing, so that none is stopped.
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
// [Cursor.Events] of a new cursor.
func Follow(ctx context.Context, log Log, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		NewCursor(log, session, after).Events(ctx)(yield)
	}
}
