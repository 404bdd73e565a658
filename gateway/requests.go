package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/once"
)

type bindingKey struct{}

// WithBinding returns a context in which [Gateway.Create], [Gateway.Fork] and
// [Gateway.Send] record in b the session or turn that they are about to create.
// If an earlier run of the same request has created it, they return it instead
// of creating another.
func WithBinding(ctx context.Context, b *once.Binding) context.Context {
	return context.WithValue(ctx, bindingKey{}, b)
}

// bindingOf returns the binding of a request, or nil.
func bindingOf(ctx context.Context) *once.Binding {
	b, _ := ctx.Value(bindingKey{}).(*once.Binding)
	return b
}

// Requests are the requests of clients that may be repeated.
type Requests struct{ g *Gateway }

// RequestsOf returns the requests to g.
func RequestsOf(g *Gateway) Requests { return Requests{g} }

// Once answers a request that a client may repeat; see [once.Requests.Do]. The
// context of run contains the request's binding.
func (r Requests) Once(ctx context.Context, req once.Request, run func(ctx context.Context) (body any, err error)) (once.Answer, error) {
	return r.g.requests.Do(ctx, req, func(ctx context.Context, b *once.Binding) (any, error) {
		return run(WithBinding(ctx, b))
	})
}

// made returns the session that an earlier run of the same request created. If
// there is none, the Status has no SessionID.
func (r Requests) made(ctx context.Context) (Status, error) {
	b := bindingOf(ctx)
	if b == nil || b.Session == "" {
		return Status{}, nil
	}
	st, err := r.g.Status(ctx, b.Session)
	if runnel.CodeOf(err) == runnel.SessionNotFound { // the server stopped before the session was complete
		return Status{}, nil
	}
	return st, err
}

// begun returns the turn with this id if an earlier run of the same request
// started it in the session or queued its prompt. If no turn has this id, the
// Sent has no TurnID. begun returns an error if the id belongs to another
// request's turn.
func (r Requests) begun(ctx context.Context, session, turn string) (Sent, error) {
	places, err := r.g.cfg.Catalogue.TurnLocations(ctx, turn)
	if err != nil {
		return Sent{}, storeError(err)
	}
	b := bindingOf(ctx)
	for _, at := range places {
		if at.Session == session && b != nil && b.Turn == turn {
			return Sent{SessionID: session, TurnID: turn, Queued: at.Waiting, After: at.After}, nil
		}
	}
	if len(places) > 0 {
		return Sent{}, once.TurnConflict(turn)
	}
	return Sent{}, nil
}

// TurnAfter returns the position in a session's log directly before the first
// event of a turn.
func (r Requests) TurnAfter(ctx context.Context, session, turn string) (int64, error) {
	places, err := r.g.cfg.Catalogue.TurnLocations(ctx, turn)
	if err != nil {
		return 0, storeError(err)
	}
	for _, at := range places {
		if at.Session == session {
			return at.After, nil
		}
	}
	return 0, NotFound(session)
}
