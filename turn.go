package runnel

import (
	"context"
	"iter"
	"sync"

	"github.com/runnel-dev/runnel/event"
)

// A Turn is one prompt and the agent's response to it.
type Turn struct {
	ID string

	log       Log
	session   string
	after     int64           // log position just before the turn
	done      chan struct{}   // closed by resolve
	logFailed context.Context // ends if the log fails before the terminal event
	failLog   context.CancelCauseFunc
	result    Result // valid once done is closed
	err       error  // valid once done is closed

	mu      sync.Mutex
	reading int           // iterations that have begun and not ended
	idle    chan struct{} // if non-nil, closed when reading falls to zero
}

// UserItemID is the id of the item that holds the user's message of a turn. The
// session logs that item when it accepts the prompt. It drops an echo of the
// item that the provider emits with the same id.
func UserItemID(turn string) string { return turn + ":0:0" }

// Result is how a turn ended.
type Result struct {
	SessionID      string // ours
	AgentSessionID string // the agent's own id of the conversation, for Options.Resume; "" if the agent reported none
	Status         event.TurnStatus
	Reason         string // the agent's reason for stopping, if it gave one
	FinalText      string // the agent's last message, at most [event.MaxText] bytes of it
	Usage          *event.Usage
	CostUSD        *float64
	Exit           *ExitStatus // of the agent of a Run; nil for a session, whose agent keeps running
}

func newTurn(id, session string, log Log, after int64) *Turn {
	t := &Turn{ID: id, log: log, session: session, after: after, done: make(chan struct{})}
	t.logFailed, t.failLog = context.WithCancelCause(context.Background())
	return t
}

// Events yields the turn's events from the user's message to the terminal
// event. It may be called any number of times, during the turn or long after.
func (t *Turn) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		t.beginRead()
		defer t.endRead()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.logFailed, func() { cancel(context.Cause(t.logFailed)) })()
		for ev, err := range Follow(ctx, t.log, t.session, t.after) {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if ev.Turn != t.ID {
				continue
			}
			if !yield(ev, nil) || event.Ends(ev.Body) {
				return
			}
		}
	}
}

// Wait returns the result of the turn once its terminal event is in the log and
// every iteration over [Turn.Events] that has begun is over. So it must not be
// called from inside such a loop. The error is an *Error if the turn failed; a
// cancelled turn has not failed. Every call returns the same result unless ctx
// ends first.
func (t *Turn) Wait(ctx context.Context) (Result, error) {
	select {
	case <-t.done:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	for {
		idle := t.readers()
		if idle == nil {
			return t.result, t.err
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
}

// Done is closed once the turn's terminal event is in the log. It is also
// closed if the log has failed, so that the session cannot append that event.
func (t *Turn) Done() <-chan struct{} { return t.done }

// resolve is called once, by the session, after the terminal event is in the
// log.
func (t *Turn) resolve(res Result, err error) {
	t.result, t.err = res, err
	close(t.done)
}

// abandon is called instead of resolve if the log failed.
func (t *Turn) abandon(err error) {
	t.failLog(err)
	t.resolve(Result{SessionID: t.session, Status: event.StatusError}, err)
}

func (t *Turn) beginRead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading++
}

func (t *Turn) endRead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading--; t.reading == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// readers returns nil if no iteration runs, and otherwise a channel that is
// closed once the last one is over.
func (t *Turn) readers() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading == 0 {
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}
