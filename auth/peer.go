package auth

import (
	"net"
	"net/netip"
	"sync"

	"github.com/runnel-dev/runnel/store"
)

// KindLocal is the kind of an Identity without a credential: the caller sits on
// the other end of our unix socket, is the same user, and is no agent of ours.
const KindLocal store.TokenKind = "local"

// A Peer is the process at the other end of a connection, as far as it can be
// told. The zero value is one far away.
type Peer struct {
	local func() bool // on our unix socket, and our user
	agent func() bool
}

// NewPeer returns the peer of a connection that was just accepted. Who holds
// the other end of the unix socket is found out now; on TCP when it is first
// asked, since that takes a look at every process, and then once.
func NewPeer(c net.Conn) *Peer {
	if !canTell {
		return &Peer{}
	}
	switch c := c.(type) {
	case *net.UnixConn:
		ours, agent := judgeCaller(c)
		return &Peer{func() bool { return ours }, func() bool { return agent }}
	case *net.TCPConn:
		return &Peer{agent: sync.OnceValue(func() bool { return agentBehind(c) })}
	case interface{ NetConn() net.Conn }: // TLS
		return NewPeer(c.NetConn())
	}
	return &Peer{}
}

// Agent reports whether an agent of ours, or something that one started, is at
// the other end; also where it is on this machine and hides who it is. A caller
// on another machine is none.
func (p *Peer) Agent() bool { return p.agent != nil && p.agent() }

// Unix reports whether the connection is one to our unix socket.
func (p *Peer) Unix() bool { return p.local != nil }

// Identity returns that of a caller on our unix socket, who needs no
// credential. Only the same user gets in, and nothing that we started: an agent
// must not answer its own questions, whatever it can read.
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
