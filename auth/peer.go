package auth

import (
	"net"

	"github.com/runnel-dev/runnel/store"
)

// KindLocal is the kind of an Identity without a credential: the caller sits on
// the other end of our unix socket, is the same user, and is no agent of ours.
const KindLocal store.TokenKind = "local"

// Local judges the other end of a connection to our unix socket. Only the same
// user gets in, and nothing that we started: an agent must not answer its own
// questions, whatever it can read.
func Local(c *net.UnixConn) (Identity, bool) {
	pid, ok := sameUser(c)
	if !ok || ours(pid) {
		return Identity{}, false
	}
	return Identity{ID: "local", Kind: KindLocal, Name: "unix socket", Scopes: All()}, true
}
