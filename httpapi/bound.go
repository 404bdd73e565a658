package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
)

// A credential may be bound to a project. For its bearer the sessions of others
// do not exist: every answer about one is that about none.

// confine keeps a bound caller to its project, as far as the path says what the
// request is about. Routes that say it otherwise see to it themselves, by mine,
// listed and home; what is about everything is refused.
func (s *Server) confine(r *http.Request, rt *route) error {
	if caller(r.Context()).Project == "" || rt.bound {
		return nil
	}
	if !strings.Contains(rt.path, "/session/{id}") {
		return runnel.Fail(runnel.Forbidden, "this credential is for one project, and this is about all of them")
	}
	id, err := s.mine(r.Context(), r.PathValue("id"))
	if err == nil {
		r.SetPathValue("id", id)
	}
	return err
}

// mine returns what the caller called a session if it may know of it; for a
// bound caller under our own id, which no conversation elsewhere has.
func (s *Server) mine(ctx context.Context, ref string) (string, error) {
	own := caller(ctx).Project
	if own == "" {
		return ref, nil
	}
	st, err := s.gw.Status(ctx, ref)
	if err == nil && st.ProjectDir != own || runnel.CodeOf(err) == runnel.SessionNotFound {
		return "", runnel.Fail(runnel.SessionNotFound, "there is no such session")
	}
	return st.SessionID, err
}

// listed returns the sessions that f selects and the caller may know of.
func (s *Server) listed(ctx context.Context, f gateway.Filter) ([]gateway.Status, error) {
	if own := caller(ctx).Project; own != "" {
		id := gateway.ProjectID(own)
		if f.ProjectID != "" && f.ProjectID != id || f.ProjectDir != "" && gateway.ProjectID(f.ProjectDir) != id {
			return []gateway.Status{}, nil
		}
		f.ProjectID, f.ProjectDir = "", own
	}
	return s.gw.List(ctx, f)
}

// home returns the directory for a new session. Another than the caller's own
// looks as if it were not there.
func home(ctx context.Context, dir string) (string, error) {
	own := caller(ctx).Project
	switch {
	case own == "" || dir == "":
		return dir, nil
	case gateway.ProjectID(dir) == gateway.ProjectID(own):
		return own, nil // not what a link leads to by the time it is used
	}
	return "", runnel.Fail(runnel.WorkingRootInaccessible, "the project directory does not exist or cannot be reached")
}
