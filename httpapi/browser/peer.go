package browser

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/runnel-dev/runnel/auth"
)

// A connection's context has the connection, its *auth.Peer, and a function
// that reports whether another user of this machine made the connection.
type (
	connKey struct{}
	peerKey struct{}
	userKey struct{}
)

// WithPeer is a ConnContext: it runs once for all requests of a connection.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, userKey{}, sync.OnceValue(func() bool { return auth.OtherUser(c) }))
	return context.WithValue(context.WithValue(ctx, connKey{}, c), peerKey{}, auth.NewPeer(c))
}

// Cut ends the connection of r, whatever is being written to it.
func Cut(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = c.Close()
	}
}

// FromOtherUser reports whether another user of this machine sent r over
// loopback, or a process that cannot be found. The system is asked once for a
// connection.
func FromOtherUser(r *http.Request) bool {
	other, ok := r.Context().Value(userKey{}).(func() bool)
	return ok && other()
}

// PeerOf returns the process at the other end of r's connection.
func PeerOf(r *http.Request) *auth.Peer {
	if p, ok := r.Context().Value(peerKey{}).(*auth.Peer); ok {
		return p
	}
	return &auth.Peer{}
}
