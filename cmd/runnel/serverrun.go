package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/universal"
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
	after         int64           // position in the log before the turn
	approve       runnel.Approver // answers approvals. Default: deny them

	leave     context.CancelFunc // ends Events
	left      context.Context    // ends with leave
	reading   sync.WaitGroup     // the iteration, and requests that are being sent
	mu        sync.Mutex         // guards the rest
	asked     map[string]context.CancelCauseFunc
	cancelled bool
	over      bool // Wait was called
	result    runnel.Result
	err       error // of the turn, or of its events
}

// errLeft is the result of a turn that runs on in the server.
var errLeft = errors.New("the turn was left to the server")

func newServerRun(l *serverLink, session, turn string, after int64) *serverRun {
	r := &serverRun{serverLink: l, session: session, turn: turn, after: after, asked: make(map[string]context.CancelCauseFunc)}
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
			r.note(ctx, ev)
			if !yield(ev, nil) || event.Ends(ev.Body) {
				return
			}
		}
	}
}

// note applies an event of the turn.
func (r *serverRun) note(ctx context.Context, ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ApprovalRequested:
		ctx, over := context.WithCancelCause(ctx)
		r.mu.Lock()
		r.asked[b.Approval.ID] = over
		r.mu.Unlock()
		r.reading.Go(func() { r.answer(ctx, b.Approval) })
	case event.ApprovalResolved:
		r.mu.Lock()
		over := r.asked[b.ApprovalID]
		delete(r.asked, b.ApprovalID)
		r.mu.Unlock()
		if over != nil {
			over(&errResolved{b})
		}
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

// errResolved is the cause with which the context of an [runnel.Approver] ends
// if the approval was answered elsewhere, or by this command.
type errResolved struct{ event.ApprovalResolved }

func (e *errResolved) Error() string { return "the approval was resolved" }

// answer finds an answer to an approval and sends it. ctx ends once the
// approval is resolved. As without a server, an answer that is invalid for the
// approval denies it.
func (r *serverRun) answer(ctx context.Context, a event.Approval) {
	d := runnel.Decision{Choice: denial(a), By: event.ByPolicy, Reason: universal.ApprovalRequired + ": no one can answer, so it was denied"}
	if r.approve != nil {
		d = r.approve(ctx, a)
		d.ArgumentsDigest = cmp.Or(d.ArgumentsDigest, a.ArgumentsDigest)
	}
	if ctx.Err() != nil {
		return
	}
	err := r.decide(ctx, a.ID, d)
	switch code := runnel.CodeOf(err); {
	case err == nil || ctx.Err() != nil:
		return
	case code == runnel.InvalidRequest || code == runnel.ApprovalGone:
		if !r.waits(ctx, a) { // somebody else was faster
			return
		}
		err = r.decide(ctx, a.ID, runnel.Decision{Choice: denial(a), By: event.ByPolicy, Reason: "the answer was invalid for this approval, so it was denied"})
	}
	if err != nil && ctx.Err() == nil {
		r.say("runnel: the approval cannot be answered from here: %s; answer it on the page", explain(err))
	}
}

// waits reports whether this approval still waits for an answer. An agent may
// use the id of an approval again for other arguments.
func (r *serverRun) waits(ctx context.Context, a event.Approval) bool {
	var open struct {
		Approval event.Approval `json:"approval"`
	}
	err := r.get(ctx, sessionPath(r.session, "approvals/"+url.PathEscape(a.ID)), &open)
	return err == nil && open.Approval.ArgumentsDigest == a.ArgumentsDigest
}

// denial returns the id of a choice that denies, as the server would choose it.
func denial(a event.Approval) string {
	for _, kind := range []event.ChoiceKind{event.ChoiceDeny, event.ChoiceDenyStop} {
		for _, c := range a.Choices {
			if c.Kind == kind {
				return c.ID
			}
		}
	}
	return event.ChoiceWithdrawn
}

// decide sends a decision. A withdrawal cancels the turn, which withdraws the
// approval.
func (r *serverRun) decide(ctx context.Context, id string, d runnel.Decision) error {
	if d.Choice == event.ChoiceWithdrawn {
		return r.cancel(ctx, r.session)
	}
	return r.serverLink.decide(ctx, r.session, id, d)
}

// decide sends a decision about an approval of a session.
func (l *serverLink) decide(ctx context.Context, session, id string, d runnel.Decision) error {
	return l.post(ctx, sessionPath(session, "approvals/"+url.PathEscape(id)), decisionBody{d, d.By == event.ByPolicy}, nil)
}

// decisionBody is a decision in the form of the API.
type decisionBody struct {
	runnel.Decision
	Automatic bool `json:"automatic,omitempty"`
}

// Wait implements [promptRun].
func (r *serverRun) Wait(context.Context) (runnel.Result, error) {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.reading.Wait()
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
