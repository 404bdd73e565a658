package runnel

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Bounds of one batch of a [Cursor]. A slow reader holds at most one batch in
// memory, and keeps no read of the log open while it processes the batch.
const (
	batchEvents = 512
	batchBytes  = 32 << 10 // estimated by event.Weight
)

// batchKept is the largest batch buffer, in events, that a cursor keeps for
// reuse.
const batchKept = 16

// A Cursor is the position of one reader in a session's log. It returns the
// events after that position: first the events already in the log, then new
// events as the session appends them.
//
// A Cursor starts no goroutine. Its methods must not be called concurrently.
type Cursor struct {
	// Turn, if set, is called before the cursor reads events that the log does
	// not have in memory. It waits until the cursor may read, and returns a
	// function that the cursor calls when it has read. It must not change after
	// the first call of a method. Cursor.Events does not call it.
	Turn func(ctx context.Context) (leave func(), err error)

	log     Log
	session string
	at      int64
	batch   []event.Event // buffer of the next batch
	timer   *time.Timer   // created by the first wait with a deadline
}

// NewCursor returns a cursor that reads the session's log from the event after
// position after.
func NewCursor(log Log, session string, after int64) *Cursor {
	return &Cursor{log: log, session: session, at: after}
}

// Position returns the position of the last event that the cursor returned, or
// its initial position if it has returned none.
func (c *Cursor) Position() int64 { return c.at }

// Next waits until the log has events after the cursor's position and returns
// the next batch of them, at least one event. When ctx ends it returns the
// cause. The batch is valid until the next call.
func (c *Cursor) Next(ctx context.Context) ([]event.Event, error) {
	return c.NextUntil(ctx, time.Time{})
}

// NextUntil is [Cursor.Next] with a deadline, at which it returns no events and
// no error. The zero deadline means that it waits without limit.
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

// Read returns the next batch without waiting. At the end of the log it returns
// no events. The batch is valid until the next call.
func (c *Cursor) Read(ctx context.Context) ([]event.Event, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	evs := c.batch[:0]
	clear(evs[:cap(evs)])
	if log, ok := c.log.(store.TailReader); ok {
		if evs, ok := log.Tail(c.session, c.at, evs, batchEvents, batchBytes); ok {
			c.keep(evs)
			if len(evs) > 0 {
				c.at = evs[len(evs)-1].Seq
			}
			return evs, nil
		}
	}
	return c.readLog(ctx, evs)
}

// keep keeps the memory of a batch for the next one, unless it is large.
func (c *Cursor) keep(evs []event.Event) {
	if c.batch = evs; cap(evs) > batchKept {
		c.batch = nil
	}
}

// readLog is Read for a log that does not have the events in memory. It appends
// them to evs.
func (c *Cursor) readLog(ctx context.Context, evs []event.Event) ([]event.Event, error) {
	if c.Turn != nil {
		leave, err := c.Turn(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	size, at := 0, c.at
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
	c.keep(evs)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(evs) == 0:
		return nil, failed
	}
	c.at = at // after an error, the next call reads on from here
	return evs, nil
}

// Events yields the events one by one and waits for new ones. It ends when its
// caller stops the iteration. When ctx ends it yields the cause.
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

// Wait returns true once the log has events after the cursor's position, or
// false at the deadline. The zero deadline means that it waits without limit.
// When ctx ends it returns the cause.
func (c *Cursor) Wait(ctx context.Context, deadline time.Time) (grown bool, err error) {
	ended, err := c.wait(ctx, c.log.Grown(c.session, c.at), deadline)
	return !ended && err == nil, err
}

// Serve waits like Wait, but lets the goroutine that appends events pass them to
// take, and moves the cursor behind them. A reader that has little to do for an
// event thereby saves a wake-up of its own goroutine.
//
// take must not block, and must not use the cursor or the session; the events
// are valid until it returns. It returns whether it takes further events, and
// the time at which Serve is to return at the latest, if that is earlier than
// before. take does not run before Serve begins or after it has returned.
func (c *Cursor) Serve(ctx context.Context, deadline time.Time, take func([]event.Event) (more bool, due time.Time)) (grown bool, err error) {
	log, ok := c.log.(store.Deliverer)
	if !ok || ctx.Err() != nil {
		return c.Wait(ctx, deadline)
	}
	alarm := c.alarm(cmp.Or(deadline, time.Now().Add(farAway)))
	var failed error
	d := log.Deliver(c.session, c.at, func(evs []event.Event) (goesOn bool) {
		defer func() {
			if v := recover(); v != nil { // it must not end the goroutine that appends
				failed, goesOn = Fail(Internal, "a reader of the session failed", fmt.Errorf("%v\n%s", v, debug.Stack())), false
			}
		}()
		c.at = evs[len(evs)-1].Seq
		more, due := take(evs)
		if !due.IsZero() && (deadline.IsZero() || due.Before(deadline)) {
			deadline = due
			c.alarm(due)
		}
		return more
	})
	if d == nil {
		return c.Wait(ctx, deadline)
	}
	select {
	case <-d.Woken:
		grown = true
	case <-alarm:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if d.Stop(); failed != nil { // Stop waits for take
		return false, failed
	}
	return grown, err
}

// farAway is the deadline of a wait without one, whose timer may be set to an
// earlier time.
const farAway = 365 * 24 * time.Hour

// wait waits for a signal of grown. It reports whether the deadline passed
// first. When ctx ends it returns the cause.
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

// alarm returns a channel that receives a value at the deadline; nil for the
// zero deadline. It never stops the timer: since Go 1.23, a timer costs nothing
// while no goroutine receives from its channel.
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

// Follow yields the events of a session after position after and waits for new
// ones. It is [Cursor.Events] of a new cursor. When ctx ends it yields the
// cause.
func Follow(ctx context.Context, log Log, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		NewCursor(log, session, after).Events(ctx)(yield)
	}
}
