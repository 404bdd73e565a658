package stream

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
)

// errStuck ends a stream when the events of its turn can no longer be recorded.
var errStuck = runnel.Fail(runnel.StoreUnavailable, "the events of this turn can no longer be recorded; see the server's log")

// A feed reads a session's events for one stream. It has a cursor, and a stall
// detector that ends the stream if the turn can neither continue nor end. Every
// stream of new events reads through a feed.
type feed struct {
	cursor *runnel.Cursor
	stall  stallDetector
}

// feed returns a feed for the caller of the request of ctx. What is not in
// memory is read in turn with the pages of the caller's credential.
func (s *Streams) feed(ctx context.Context, session string, after int64) (*feed, error) {
	d, err := newStallDetector(ctx, s.cfg.Gateway, session, s.cfg.Heartbeat)
	c := runnel.NewCursor(s.cfg.Gateway.Log(), session, after)
	c.Turn = s.readTurn
	return &feed{c, d}, err
}

// readTurn waits until the caller of the request of ctx may read from the log.
func (s *Streams) readTurn(ctx context.Context) (leave func(), err error) {
	return s.pages.Enter(ctx, access.Caller(ctx).ID)
}

// A taker sends events without waiting, in the goroutine that appends them. It
// has the contract of the function that [runnel.Cursor.Serve] calls. If it
// returns that it takes no more, it has kept what it did not send.
type taker func(evs []event.Event) (more bool, due time.Time)

// wait returns true once there are events to read, or once take takes no more.
// It returns false at a time that take has returned, at wake if that is not
// zero, and sometimes earlier. It holds no events while it waits. take may be
// nil.
func (f *feed) wait(ctx context.Context, wake time.Time, take taker) (grown bool, err error) {
	deadline := f.stall.due()
	if deadline.IsZero() || !wake.IsZero() && wake.Before(deadline) {
		deadline = wake
	}
	if take == nil {
		grown, err = f.cursor.Wait(ctx, deadline)
	} else {
		grown, err = f.cursor.Serve(ctx, deadline, func(evs []event.Event) (bool, time.Time) {
			f.stall.observe(evs, time.Now())
			return take(evs)
		})
	}
	if err != nil {
		return false, errUnreadable(ctx, err)
	}
	if due := f.stall.due(); !grown && !due.IsZero() && !time.Now().Before(due) {
		return false, f.stall.check(ctx)
	}
	return grown, nil
}

// read returns the events that are in the log now, at most one batch.
func (f *feed) read(ctx context.Context) ([]event.Event, error) {
	evs, err := f.cursor.Read(ctx)
	if err != nil {
		return nil, errUnreadable(ctx, err)
	}
	if len(evs) > 0 {
		f.stall.observe(evs, time.Now())
	}
	return evs, nil
}

// A stallDetector detects a turn that neither continues nor ends. That happens
// when the store has failed, so no event can report it.
type stallDetector struct {
	gw      *gateway.Gateway
	session string
	quiet   time.Duration   // time without events after which the turn is checked
	last    time.Time       // time of the newest event or check
	open    map[string]bool // turns without an end in the events read so far
	suspect bool            // the last check found open turns, and no agent at work on any of them
}

func newStallDetector(ctx context.Context, gw *gateway.Gateway, session string, quiet time.Duration) (stallDetector, error) {
	d := stallDetector{gw: gw, session: session, quiet: quiet, last: time.Now(), open: make(map[string]bool)}
	st, err := gw.Log().State(ctx, session)
	if err != nil {
		return d, errUnreadable(ctx, err)
	}
	for _, t := range st.Open {
		d.open[t.Turn] = true
	}
	return d, nil
}

func (d *stallDetector) observe(evs []event.Event, now time.Time) {
	for _, ev := range evs {
		if ev.Turn == "" {
			continue
		}
		d.suspect = false
		if event.Ends(ev.Body) {
			delete(d.open, ev.Turn)
		} else {
			d.open[ev.Turn] = true
		}
	}
	d.last = now
}

// due returns the time of the next check, or zero if no turn is open.
func (d *stallDetector) due() time.Time {
	if len(d.open) == 0 {
		return time.Time{}
	}
	return d.last.Add(d.quiet)
}

// check returns errStuck if two checks in a row found open turns in the log,
// and no agent at work on any of them. A single such check proves nothing: it
// may fall between the agent's last message and the end of the turn in the log.
func (d *stallDetector) check(ctx context.Context) error {
	d.last = time.Now()
	st, err := d.gw.Status(ctx, d.session)
	if err != nil {
		return err
	}
	log, err := d.gw.Log().State(ctx, d.session)
	if err != nil {
		return errUnreadable(ctx, err)
	}
	idle := len(log.Open) > 0 && !slices.ContainsFunc(log.Open, func(t runnel.OpenTurn) bool { return t.Turn == st.TurnID })
	if d.suspect && idle {
		return errStuck
	}
	d.suspect = idle
	return nil
}

// errUnreadable returns the error for clients when a session's log cannot be
// read. If ctx has ended, it returns the cause of that.
func errUnreadable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case runnel.CodeOf(err) == runnel.SessionNotFound:
		return err
	}
	return runnel.Fail(runnel.StoreUnavailable, "the session's log cannot be read now; see the server's log", err)
}
