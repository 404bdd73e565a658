package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
)

// acquire returns a session and opens it if necessary. It stays open until the
// caller releases it.
func (g *Gateway) acquire(ctx context.Context, id string) (*entry, error) {
	return g.sessions.acquire(ctx, id, func() (*entry, error) { return g.opener.open(id, credentialOf(ctx)) })
}

// opened returns the session if it is open. It returns nil if the session
// exists but is not open; such a session has no turn to cancel and no approval
// to decide. The caller releases the session.
func (g *Gateway) opened(ctx context.Context, ref string) (*entry, error) {
	id, err := g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return nil, err
	}
	e, err := g.sessions.lookup(ctx, id)
	if e != nil || err != nil {
		return e, err
	}
	_, err = g.opener.record(ctx, id)
	return nil, err
}

// lock opens the session that a client named and takes its turn lock. The
// caller must call unlock.
func (g *Gateway) lock(ctx context.Context, ref string) (*entry, error) {
	for {
		id, err := g.importer.resolve(ctx, ref, "", true)
		if err != nil {
			return nil, err
		}
		e, err := g.acquire(ctx, id)
		if err != nil {
			return nil, err
		}
		e.sending.Lock()
		if g.sessions.peek(e.session.ID()) == e {
			return e, nil
		}
		g.unlock(e) // it was ended or reopened while we waited
	}
}

func (g *Gateway) unlock(e *entry) {
	e.sending.Unlock()
	g.sessions.release(e)
}

// lockOpened is like lock but returns nil if the session is not open.
func (g *Gateway) lockOpened(ctx context.Context, id string) (*entry, error) {
	for {
		e, err := g.opened(ctx, id)
		if e == nil || err != nil {
			return nil, err
		}
		e.sending.Lock()
		if g.sessions.peek(id) == e {
			return e, nil
		}
		g.unlock(e) // it was ended or reopened while we waited
	}
}

// inProgress returns the error for a prompt to a busy session. turn is the
// running turn, or "" if no turn runs but prompts are queued.
func inProgress(session, turn string) error {
	details := map[string]string{"sessionId": session}
	if turn != "" {
		details["turnId"] = turn
	}
	return &runnel.Error{
		Code: runnel.TurnInProgress, Message: "a turn is already running; wait for its end, cancel it, or send with queue:true", Details: details,
	}
}
