package browser

import (
	"context"
	"net"
	"net/http"

	"github.com/runnel-dev/runnel/auth"
)

// A connection's context has the connection and its *auth.Peer.
type (
	connKey struct{}
	peerKey struct{}
)

// WithPeer is a ConnContext: it runs once for all requests of a connection.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(context.WithValue(ctx, connKey{}, c), peerKey{}, auth.NewPeer(c))
}

// Cut ends the connection of r, whatever is being written to it.
func Cut(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = c.Close()
	}
}

// PeerOf returns the process at the other end of r's connection.
func PeerOf(r *http.Request) *auth.Peer {
	if p, ok := r.Context().Value(peerKey{}).(*auth.Peer); ok {
		return p
	}
	return &auth.Peer{}
}
