package main

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// A promptRun is a prompt and the turn that answers it, in this process or in
// the running server.
type promptRun interface {
	// Events yields the events of the turn, as [runnel.Run.Events] does.
	Events(ctx context.Context) iter.Seq2[event.Event, error]
	// Wait returns the result once the turn and all iterations are over.
	Wait(ctx context.Context) (runnel.Result, error)
	// Cancel requests the end of the turn.
	Cancel(ctx context.Context) error
	// Close ends the run soon, and cancels the turn if nobody has done so.
	Close() error
}

// A serverRun is a turn of a session of the running server.
type serverRun struct {
	*serverLink
	session, turn string
	after         int64 // position in the log before the turn
	approvals     *answerer

	leave     context.CancelFunc // ends Events
	left      context.Context    // ends with leave
	reading   sync.WaitGroup     // the iteration, and requests that are being sent
	mu        sync.Mutex         // guards the rest
	cancelled bool
	over      bool // Wait was called
	result    runnel.Result
	err       error // of the turn, or of its events
}

// errLeft is the result of a turn that runs on in the server.
var errLeft = errors.New("the turn was left to the server")

func newServerRun(l *serverLink, session, turn string, after int64) *serverRun {
	r := &serverRun{serverLink: l, session: session, turn: turn, after: after, approvals: &answerer{serverLink: l, session: session}}
	r.settle(runnel.Result{}, errLeft) // until the turn has ended
	r.left, r.leave = context.WithCancel(context.Background())
	return r
}

// Events implements [promptRun]. It may be called once.
func (r *serverRun) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r.reading.Add(1)
		defer r.reading.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.left, cancel)()
		for ev, err := range r.events(ctx, r.session, r.after) {
			if err != nil {
				if r.left.Err() == nil {
					r.settle(runnel.Result{Status: event.StatusError}, err)
				}
				yield(event.Event{}, err)
				return
			}
			if ev.Turn != r.turn {
				continue
			}
			r.approvals.note(ctx, ev)
			r.note(ev)
			if !yield(ev, nil) || event.Ends(ev.Body) {
				return
			}
		}
	}
}

// note applies an event of the turn.
func (r *serverRun) note(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ResponseDone:
		r.settle(runnel.Result{Status: b.Status, Usage: b.Usage}, nil)
		r.leave()
	case event.ResponseError:
		r.settle(runnel.Result{Status: event.StatusError}, &runnel.Error{Code: runnel.Code(b.Error.Code), Message: b.Error.Message})
		r.leave()
	}
}

func (r *serverRun) settle(res runnel.Result, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res.SessionID = r.session
	r.result, r.err = res, err
}

// Wait implements [promptRun].
func (r *serverRun) Wait(context.Context) (runnel.Result, error) {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.reading.Wait()
	r.approvals.wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, r.err
}

// Cancel implements [promptRun]. It does not wait for the server.
func (r *serverRun) Cancel(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancelled = true; r.over {
		return nil
	}
	r.reading.Go(func() {
		if err := r.cancel(r.left, r.session); err != nil && r.left.Err() == nil {
			r.say("runnel: the turn cannot be cancelled: %s", explain(err))
		}
	})
	return nil
}

// cancel cancels the running turn of a session.
func (l *serverLink) cancel(ctx context.Context, session string) error {
	return l.post(ctx, sessionPath(session, "cancel"), struct{}{}, nil)
}

// cancelTime is how long Close waits for the end of a turn that it cancels.
const cancelTime = 10 * time.Second

// Close implements [promptRun]. If the turn was cancelled before, Close leaves
// it to the server at once.
func (r *serverRun) Close() error {
	r.mu.Lock()
	before := r.cancelled
	r.mu.Unlock()
	if before {
		r.leave()
		return nil
	}
	time.AfterFunc(cancelTime, r.leave)
	return r.Cancel(context.Background())
}

// follower returns how to continue to watch a session, for a message.
func follower(session string) string {
	return "'runnel attach " + termtext.Clean(session) + "' follows it"
}
