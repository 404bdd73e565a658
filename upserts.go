package runnel

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// Upserts yields the turn as whole items, each with its content so far, and the
// turn's begin, approvals, notices and end. A reader that is slow gets fewer
// and larger upserts; it delays nobody. It may be called any number of times,
// and [Turn.Wait] waits for it as for [Turn.Events].
//
// If the log fails, the items that have not ended are yielded as errors, and
// then the error. When ctx ends it yields the cause alone, unless that is a
// [Destroyed].
func (t *Turn) Upserts(ctx context.Context) iter.Seq2[upsert.Out, error] {
	return func(yield func(upsert.Out, error) bool) {
		t.beginRead()
		defer t.endRead()
		reading, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.logFailed, func() { cancel(context.Cause(t.logFailed)) })()
		r := itemReader{cursor: NewCursor(t.log, t.session, t.after), turn: t.ID, yield: yield}
		r.close(ctx, r.live(reading))
	}
}

// Upserts yields the session as whole items: first what the log already has
// after a position, and then what happens, until the session has ended. See
// [Turn.Upserts].
//
// The position is the highest Seq that the reader has received, or 0. Logged
// items are in the order of their newest events, so that a reader may stop
// anywhere. StartedAt has the order in which they began. Upserts reads a long
// log in parts, and yields an item again if it was unfinished at the end of a
// part.
func (s *Session) Upserts(ctx context.Context, after int64) iter.Seq2[upsert.Out, error] {
	return func(yield func(upsert.Out, error) bool) {
		reading, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.ctx, func() { cancel(errSessionEnded) })()
		r := itemReader{cursor: NewCursor(s.log, s.id, 0), yield: yield}
		err := r.history(ctx, after)
		if err == nil {
			err = r.live(reading)
		}
		if errors.Is(err, errSessionEnded) {
			err = r.rest(ctx)
		}
		r.close(ctx, err)
	}
}

// Handlers are the functions that a [Reader] calls, in order and one at a time.
// They may block, but must not wait for the end of the run or session that they
// read.
type Handlers struct {
	OnUpsert func(upsert.Upsert)    // an item as it is now. Default: not called
	OnTurn   func(upsert.TurnEvent) // a turn begins or ends. Default: not called
}

// Handle calls h for everything that happens in the session after a position.
// See [Session.Upserts].
func (s *Session) Handle(after int64, h Handlers) *Reader {
	return handle(h, func(ctx context.Context) iter.Seq2[upsert.Out, error] { return s.Upserts(ctx, after) }, func() {})
}

// A Reader calls [Handlers] on a separate goroutine.
type Reader struct {
	destroy context.CancelCauseFunc
	done    chan struct{}
	err     error // valid once done is closed
}

// Destroyed is the cause with which a [Reader] was destroyed.
type Destroyed struct {
	Reason string
}

func (d Destroyed) Error() string { return "the reader was destroyed: " + d.Reason }

// Destroy ends the reader. For every unfinished item the reader first receives
// an upsert with the status error and the reason, or without a reason if it is
// user_cancel. Destroy does not wait; see Done. Only the first call has an
// effect.
func (r *Reader) Destroy(reason string) { r.destroy(Destroyed{reason}) }

// Done is closed after the last call of a handler.
func (r *Reader) Done() <-chan struct{} { return r.done }

// Err returns why the reader ended early, once Done is closed: a [Destroyed],
// or that the log failed. It returns nil if the reader reached the end.
func (r *Reader) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// handle starts a reader. The session does not wait for it, because a handler
// may close the session that it reads.
func handle(h Handlers, upserts func(context.Context) iter.Seq2[upsert.Out, error], ended func()) *Reader {
	ctx, destroy := context.WithCancelCause(context.Background())
	r := &Reader{destroy: destroy, done: make(chan struct{})}
	go func() {
		defer ended()
		defer close(r.done)
		defer destroy(nil)
		for out, err := range upserts(ctx) {
			switch out := out.(type) {
			case upsert.Upsert:
				if h.OnUpsert != nil {
					h.OnUpsert(out)
				}
			case upsert.TurnEvent:
				if h.OnTurn != nil {
					h.OnTurn(out)
				}
			}
			r.err = err
		}
	}()
	return r
}

var (
	errSessionEnded = errors.New("the session has ended")
	errStopped      = errors.New("the caller wants no more")
)

// An itemReader folds events into whole items for one reader.
type itemReader struct {
	cursor *Cursor
	turn   string // the turn that r reads; "" for all turns
	pacer  upsert.Pacer
	yield  func(upsert.Out, error) bool
}

// batchSize is the number of logged events that are folded at once. An item
// that changes in several batches is yielded after each of them.
const batchSize = 4096

// history yields the items that the log has now, and moves the cursor after
// them.
func (r *itemReader) history(ctx context.Context, after int64) error {
	st, err := r.cursor.log.State(ctx, r.cursor.session)
	if err != nil {
		return err
	}
	for at := int64(-1); at < r.cursor.at && r.cursor.at < st.Head; {
		at = r.cursor.at
		outs, err := r.pacer.History(r.nextBatch(ctx, st.Head), after, time.Now())
		if err != nil {
			return err
		}
		slices.SortStableFunc(outs, func(a, b upsert.Out) int { return cmp.Compare(upsert.SeqOf(a), upsert.SeqOf(b)) })
		if err := r.send(outs); err != nil {
			return err
		}
	}
	return nil
}

// nextBatch yields the next events of the log up to a position.
func (r *itemReader) nextBatch(ctx context.Context, head int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for n := 0; n < batchSize && r.cursor.at < head; {
			evs, err := r.cursor.Read(ctx)
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, ev := range evs {
				if n++; !yield(ev, nil) {
					return
				}
			}
			if len(evs) == 0 {
				return
			}
		}
	}
}

// live yields new items. If r reads only one turn, live returns at the end of
// that turn.
func (r *itemReader) live(ctx context.Context) error {
	for {
		due, _ := r.pacer.Due()
		evs, err := r.cursor.NextUntil(ctx, due)
		if err != nil {
			return err
		}
		if over, err := r.push(evs); over || err != nil {
			return err
		}
	}
}

// rest yields the remaining items of a session that has ended. It yields
// unfinished items as errors.
func (r *itemReader) rest(ctx context.Context) error {
	for {
		evs, err := r.cursor.Read(ctx)
		if err != nil {
			return err
		}
		if len(evs) == 0 {
			return r.send(r.pacer.Close(time.Now()))
		}
		if _, err := r.push(evs); err != nil {
			return err
		}
	}
}

// push folds events and sends what is due. It reports whether the turn is over.
func (r *itemReader) push(evs []event.Event) (over bool, err error) {
	if r.turn != "" {
		var own []event.Event
		for _, ev := range evs {
			if ev.Turn == r.turn {
				own = append(own, ev)
				over = over || event.Ends(ev.Body)
			}
		}
		evs = own
	}
	now := time.Now()
	return over, r.send(append(r.pacer.PushAll(evs, now), r.pacer.Flush(now)...))
}

func (r *itemReader) send(outs []upsert.Out) error {
	for _, out := range outs {
		if !r.yield(out, nil) {
			return errStopped
		}
	}
	return nil
}

// close ends the reading, with an error if it did not reach its end.
func (r *itemReader) close(ctx context.Context, err error) {
	if err == nil || errors.Is(err, errStopped) {
		return
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var outs []upsert.Out
	destroyed, ok := errors.AsType[Destroyed](err)
	switch {
	case ok:
		outs = r.pacer.Destroy(destroyed.Reason, time.Now())
	case ctx.Err() == nil: // the log failed
		outs = r.pacer.Close(time.Now())
	}
	if r.send(outs) == nil {
		r.yield(nil, err)
	}
}
