// Package access identifies the caller of a request, and finds the sessions
// that the caller may see.
package access

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

type callerKey struct{}

// Caller returns the identity of a request's caller. It is the zero Identity on
// routes that need no credential.
func Caller(ctx context.Context) auth.Identity {
	id, _ := ctx.Value(callerKey{}).(auth.Identity)
	return id
}

// WithCaller returns a context in which [Caller] returns id. Sessions that are
// opened in it count against id's credential and are limited to id's project,
// if id is bound to one.
func WithCaller(ctx context.Context, id auth.Identity) context.Context {
	ctx = gateway.WithProject(context.WithValue(ctx, callerKey{}, id), id.Project)
	return gateway.WithCredential(ctx, id.ID)
}

type recorderKey struct{}

// WithRecorder returns a context in which [Record] passes its entries to record.
func WithRecorder(ctx context.Context, record func(audit.Record) error) context.Context {
	return context.WithValue(ctx, recorderKey{}, record)
}

// Record records in the audit log what the caller of a request is about to do.
// If that fails, the request must be refused with the error.
func Record(ctx context.Context, e audit.Record) error {
	record, _ := ctx.Value(recorderKey{}).(func(audit.Record) error)
	if record == nil {
		return nil
	}
	id := Caller(ctx)
	e.By, e.Who, e.Credential = event.ByUser, id.Name, id.ID
	if err := record(e); err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the audit log cannot be written now, so nothing was changed; see the server's log", err)
	}
	return nil
}

// Sessions are the sessions of a gateway that the caller of a request may see.
// A credential may be bound to a project. For such a caller sessions of other
// projects do not exist: requests about them get the same answers as requests
// about unknown sessions.
type Sessions struct{ Gateway *gateway.Gateway }

// VisibleRef returns a reference to the session that the caller named, if the
// caller may see it. For a caller that is bound to a project the reference is
// our id, which no conversation of another project can have. For other callers
// it is ref, unchecked.
func (s Sessions) VisibleRef(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", runnel.Fail(runnel.InvalidRequest, "sessionId: is missing; give the id of a session")
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

// Resolve returns our id for the session that the caller named.
func (s Sessions) Resolve(ctx context.Context, ref string) (string, error) {
	ref, err := s.VisibleRef(ctx, ref)
	if err != nil {
		return "", err
	}
	st, err := s.Gateway.Status(ctx, ref)
	return st.SessionID, err
}

// List returns the sessions that match f and that the caller may see.
func (s Sessions) List(ctx context.Context, f gateway.Filter) ([]gateway.Status, error) {
	return s.Gateway.List(ctx, f) // WithCaller has limited ctx to the caller's project
}

// Listed returns the sessions that match f and that the caller may see, as
// JSON.
func (s Sessions) Listed(ctx context.Context, f gateway.Filter) ([]gateway.Listed, error) {
	return s.Gateway.Listed(ctx, f) // WithCaller has limited ctx to the caller's project
}

// Home returns the directory for a new session. A caller that is bound to a
// project may name only that project's directory. Any other directory is
// reported as missing.
func Home(ctx context.Context, dir string) (string, error) {
	own := Caller(ctx).Project
	switch {
	case own == "" || dir == "":
		return dir, nil
	case gateway.InPlace(own) && gateway.ProjectID(dir) == gateway.ProjectID(own):
		return own, nil // the recorded name, because dir may contain a link that changes before it is used
	}
	return "", runnel.Fail(runnel.WorkingRootInaccessible, "the project directory does not exist or cannot be reached")
}
