package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/once"
)

type bindingKey struct{}

// WithBinding returns a context in which [Gateway.Create], [Gateway.Fork] and
// [Gateway.Send] record in b what they bind, before it exists. What an earlier
// run of the same request bound, they find instead of making it again.
func WithBinding(ctx context.Context, b *once.Binding) context.Context {
	return context.WithValue(ctx, bindingKey{}, b)
}

// bindingOf returns the binding of a request; nil if it has none.
func bindingOf(ctx context.Context) *once.Binding {
	b, _ := ctx.Value(bindingKey{}).(*once.Binding)
	return b
}

// Once answers a request that a client may repeat; see [once.Requests.Do]. The
// context of run has the binding.
func (g *Gateway) Once(ctx context.Context, req once.Request, run func(ctx context.Context) (body any, err error)) (once.Answer, error) {
	return g.requests.Do(ctx, req, func(ctx context.Context, b *once.Binding) (any, error) {
		return run(WithBinding(ctx, b))
	})
}

// made returns the session that an earlier run of the same request made; one
// without an id if there is none.
func (g *Gateway) made(ctx context.Context) (Status, error) {
	b := bindingOf(ctx)
	if b == nil || b.Session == "" {
		return Status{}, nil
	}
	st, err := g.Status(ctx, b.Session)
	if runnel.CodeOf(err) == runnel.SessionNotFound { // the server ended before it was complete
		return Status{}, nil
	}
	return st, err
}

// begun returns the turn with this id if an earlier run of the same request
// began it in the session, or queued its prompt; one without an id if there is
// no such turn. It fails for a turn of any other request.
func (g *Gateway) begun(ctx context.Context, session, turn string) (Sent, error) {
	places, err := g.cfg.Catalogue.TurnPlaces(ctx, turn)
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

// TurnAfter returns the position in the log of a session just before the first
// event of a turn.
func (g *Gateway) TurnAfter(ctx context.Context, session, turn string) (int64, error) {
	places, err := g.cfg.Catalogue.TurnPlaces(ctx, turn)
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
