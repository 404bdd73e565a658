// Package access says who sent a request, and which sessions its sender may
// know of.
package access

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

type callerKey struct{}

// Caller returns the identity of who sent a request; the zero one for public
// routes.
func Caller(ctx context.Context) auth.Identity {
	id, _ := ctx.Value(callerKey{}).(auth.Identity)
	return id
}

// WithCaller returns a context in which [Caller] is id, and on whose account
// sessions are opened.
func WithCaller(ctx context.Context, id auth.Identity) context.Context {
	ctx = gateway.WithProject(context.WithValue(ctx, callerKey{}, id), id.Project)
	return gateway.WithCredential(ctx, id.ID)
}

// Sessions are those of a gateway, as far as the caller of a request may know
// of them. A credential may be bound to a project: for its bearer the sessions
// of others do not exist, and every answer about one is that about none.
type Sessions struct{ Gateway *gateway.Gateway }

// Mine returns what the caller called a session if it may know of it; for a
// bound caller under our own id, which no conversation elsewhere has.
func (s Sessions) Mine(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", runnel.Fail(runnel.InvalidRequest, "sessionId: is missing; say which session")
	}
	own := Caller(ctx).Project
	if own == "" {
		return ref, nil
	}
	id, err := s.Gateway.Resolve(ctx, ref, own)
	var st gateway.Status
	if err == nil {
		st, err = s.Gateway.Status(ctx, id)
	}
	if err == nil && st.ProjectDir != own || runnel.CodeOf(err) == runnel.SessionNotFound {
		return "", gateway.NotFound(ref)
	}
	return st.SessionID, err
}

// Resolve returns our id for what the caller called a session, if there is one.
func (s Sessions) Resolve(ctx context.Context, ref string) (string, error) {
	ref, err := s.Mine(ctx, ref)
	if err != nil {
		return "", err
	}
	st, err := s.Gateway.Status(ctx, ref)
	return st.SessionID, err
}

// List returns the sessions that f selects and the caller may know of.
func (s Sessions) List(ctx context.Context, f gateway.Filter) ([]gateway.Status, error) {
	return s.Gateway.List(ctx, f) // for the project that the context is limited to
}

// Home returns the directory for a new session. Another than the caller's own
// looks as if it were not there.
func Home(ctx context.Context, dir string) (string, error) {
	own := Caller(ctx).Project
	switch {
	case own == "" || dir == "":
		return dir, nil
	case gateway.InPlace(own) && gateway.ProjectID(dir) == gateway.ProjectID(own):
		return own, nil // not what a link leads to by the time it is used
	}
	return "", runnel.Fail(runnel.WorkingRootInaccessible, "the project directory does not exist or cannot be reached")
}
