package runnel

import (
	"cmp"
	"context"
	"iter"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
	"github.com/runnel-dev/runnel/upsert"
)

// A Run is a session that lasts for one prompt.
type Run struct {
	turn    *Turn
	session *Session
	results bool // universal events have arguments and outputs

	mu       sync.Mutex
	detached bool
	unwatch  func() bool   // stops watching the start context
	over     chan struct{} // closed once the agent has exited
}

// Start runs one prompt and then stops the agent.
//
// opt.Judge decides approvals first, and opt.Approve answers the others.
// Without opt.Approve the run denies them. Cancelling ctx after Start has
// returned has no effect unless opt.EndWithContext is set.
func Start(ctx context.Context, p Provider, opt Options, in Input) (*Run, error) {
	return start(ctx, p, Defaults{}, opt, in)
}

// start is Start, with defaults for the options that neither opt nor its
// extensions have.
func start(ctx context.Context, p Provider, d Defaults, opt Options, in Input) (*Run, error) {
	if err := Require(p, CapRun); err != nil {
		return nil, err
	}
	if err := CheckPrompt("prompt", in.Text, len(in.Attachments)+len(in.Rejected)); err != nil {
		return nil, err
	}
	opt.Dir = cmp.Or(opt.Dir, d.Dir) // directories in extensions are relative to it
	x, err := extend(p, opt)
	if err == nil {
		opt, err = CheckOptions(p, d.Apply(x.opt), nil)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{results: x.results, over: make(chan struct{})}
	opt.OneTurn = true
	cfg := Config{Lifetime: opt.Timeout, Dormant: true, Judge: opt.Judge, warnings: x.warnings()}
	if opt.Approve == nil {
		cfg.ApprovalTimeout = -1
	}
	if r.session, err = Open(ctx, p, opt, cfg); err != nil {
		if x.selected {
			err = pinnedError(err)
		}
		return nil, err
	}
	if r.turn, err = r.session.Send(ctx, in); err != nil {
		_ = r.session.Close()
		if opt.Timeout > 0 && CodeOf(err) == SessionDead { // only the timeout can end the session before its prompt
			err = Fail(Timeout, overtime)
		}
		return nil, err
	}
	if opt.EndWithContext {
		r.unwatch = context.AfterFunc(ctx, func() { _ = r.Close() })
	}
	go r.finish()
	return r, nil
}

// finish ends the agent once its turn is over. It is the Run's one goroutine.
func (r *Run) finish() {
	defer close(r.over)
	if r.unwatch != nil {
		defer r.unwatch()
	}
	select {
	case <-r.turn.Done():
	case <-r.session.Done():
	}
	_ = r.session.Close()
}

// ID returns the id of the run's turn.
func (r *Run) ID() string { return r.turn.ID }

// Events yields the run's events, live. It may be called again, also after the
// end. See [Turn.Events].
func (r *Run) Events(ctx context.Context) iter.Seq2[event.Event, error] { return r.turn.Events(ctx) }

// Universal yields the run's events in the universal envelope. See [Run.Events]
// and [universal.Stream].
func (r *Run) Universal(ctx context.Context) iter.Seq2[universal.Event, error] {
	return func(yield func(universal.Event, error) bool) {
		s := universal.Stream{AgentKind: AgentKind(r.session.provider), Results: r.results}
		for ev, err := range r.Events(ctx) {
			if err != nil {
				yield(universal.Event{}, err)
				return
			}
			for _, u := range s.Push(ev) {
				if !yield(u, nil) {
					return
				}
			}
		}
	}
}

// Upserts yields the run as whole items. See [Turn.Upserts].
func (r *Run) Upserts(ctx context.Context) iter.Seq2[upsert.Out, error] { return r.turn.Upserts(ctx) }

// Handle calls h for everything that happens in the run, from its start to its
// end. [Run.Wait] waits for the last call.
func (r *Run) Handle(h Handlers) *Reader {
	r.turn.beginRead()
	return handle(h, r.turn.Upserts, r.turn.endRead)
}

// Wait returns the result of the run once its terminal event is in the log,
// every iteration that has begun is over, and the agent has exited. See
// [Turn.Wait].
func (r *Run) Wait(ctx context.Context) (Result, error) {
	res, err := r.turn.Wait(ctx)
	select {
	case <-r.over:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	res.Exit = r.session.Status().Exit
	return res, err
}

// Completion is [Run.Wait] with the result and the error message in the form of
// the universal API.
func (r *Run) Completion(ctx context.Context) (universal.Completion, error) {
	res, err := r.Wait(ctx)
	c := universal.Completion{
		AgentKind: AgentKind(r.session.provider), Status: string(res.Status),
		FinalText: res.FinalText, Data: universal.Handle(res.AgentSessionID),
	}
	if res.Exit != nil {
		c.ExitCode = &res.Exit.Code
	}
	return c, pinnedError(err)
}

// Cancel ends the run as cancelled. It may be called at any time and
// repeatedly.
func (r *Run) Cancel(ctx context.Context) error {
	if err := r.session.Cancel(ctx); err != nil && CodeOf(err) != SessionDead {
		return err
	}
	return nil
}

// Detach lets the run continue without its caller: Close and the context of
// Start no longer end it. The run still stops its agent after the turn.
func (r *Run) Detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detached = true
	if r.unwatch != nil {
		r.unwatch()
	}
}

// Close stops the agent. A run that has not ended ends as cancelled. Close
// returns once the agent and all its descendants have ended. After Detach it
// does nothing.
func (r *Run) Close() error {
	r.mu.Lock()
	detached := r.detached
	r.mu.Unlock()
	if detached {
		return nil
	}
	err := r.session.Close()
	<-r.over
	return err
}
