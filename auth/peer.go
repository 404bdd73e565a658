package auth

import (
	"net"
	"net/netip"
	"sync"

	"github.com/runnel-dev/runnel/store"
)

// KindLocal is the kind of an Identity without a credential: a caller on our
// unix socket that is the same user and not an agent of ours.
const KindLocal store.TokenKind = "local"

// A Peer is the process at the other end of a connection, as far as it can be
// identified. The zero value is a process on another machine.
type Peer struct {
	local func() bool // nil unless on our unix socket; reports whether the process is our user's
	agent func() bool
}

// NewPeer returns the peer of a connection that was just accepted. On a unix
// socket NewPeer identifies the process. On TCP the first call of [Peer.Agent]
// identifies it, because that reads all processes; later calls return the same
// result.
func NewPeer(c net.Conn) *Peer {
	if !canTell {
		return &Peer{}
	}
	switch c := c.(type) {
	case *net.UnixConn:
		ours, agent := judgeCaller(c)
		return &Peer{func() bool { return ours }, func() bool { return agent }}
	case *net.TCPConn:
		return &Peer{agent: sync.OnceValue(func() bool { return isAgentProcess(c) })}
	case interface{ NetConn() net.Conn }: // TLS
		return NewPeer(c.NetConn())
	}
	return &Peer{}
}

// Agent reports whether the process at the other end belongs to an agent of
// ours. It also returns true if the process is on this machine and hides its
// identity. It returns false for a process on another machine.
func (p *Peer) Agent() bool { return p.agent != nil && p.agent() }

// Unix reports whether the connection is to our unix socket.
func (p *Peer) Unix() bool { return p.local != nil }

// Identity returns the identity of a caller on our unix socket, which needs no
// credential. It returns false for another user and for a process of an agent,
// because an agent must not answer its own approvals, whatever files it can
// read.
func (p *Peer) Identity() (Identity, bool) {
	if !p.Unix() || !p.local() || p.Agent() {
		return Identity{}, false
	}
	return Identity{ID: "local", Kind: KindLocal, Name: "unix socket", Scopes: All()}, true
}

func addressOf(a net.Addr) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
