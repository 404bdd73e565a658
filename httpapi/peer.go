package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
)

// A connection's context has the connection and its *auth.Peer.
type (
	connKey struct{}
	peerKey struct{}
)

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(context.WithValue(ctx, connKey{}, c), peerKey{}, auth.NewPeer(c))
}

// cut ends the connection of r, whatever is being written to it.
func cut(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = c.Close()
	}
}

// peerOf returns the process at the other end of r's connection.
func peerOf(r *http.Request) *auth.Peer {
	if p, ok := r.Context().Value(peerKey{}).(*auth.Peer); ok {
		return p
	}
	return &auth.Peer{}
}

// onSocket returns the identity of a caller on the unix socket.
func (s *Server) onSocket(r *http.Request, p *auth.Peer) (auth.Identity, error) {
	if id, ok := p.Identity(); ok {
		return id, nil
	}
	return auth.Identity{}, s.refuseAgent(r, "it may not use the unix socket without a token; nor may another user")
}

// curbed takes from an agent what would let it answer its own questions, give
// itself the right to, or read what others do: a token that is for one project
// may have been made for it, one that is for all was not.
func (s *Server) curbed(r *http.Request, p *auth.Peer, id auth.Identity) (auth.Identity, error) {
	if !p.Agent() {
		return id, nil
	}
	if id.Project == "" {
		return auth.Identity{}, s.refuseAgent(r, "it may use only a token that is for one project, made with `runnel token create --project`")
	}
	id.Scopes = slices.DeleteFunc(slices.Clone(id.Scopes), curbs) // the original is shared
	return id, nil
}

func curbs(sc auth.Scope) bool { return sc == auth.Approve || sc == auth.Admin }

// refuseAgent tells a process that an agent started why it gets nothing, and the
// operator that it tried.
func (s *Server) refuseAgent(r *http.Request, why string) error {
	s.metrics.refused("agent")
	s.log.LogAttrs(r.Context(), slog.LevelWarn, "refused what an agent may have started", slog.String("method", method(r)), slog.String("path", bounded(r.URL.Path)))
	return runnel.Fail(runnel.Forbidden, "this process was started by an agent, or hides who started it: "+why)
}
