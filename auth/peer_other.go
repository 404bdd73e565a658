//go:build !linux

package auth

import (
	"net"
	"net/netip"
)

// canTell is false because this system cannot identify the process at the other
// end of a connection in a way that an agent cannot evade. A unix socket then
// gives no identity, so that every caller needs a token. A token that an agent
// has found works like any other.
const canTell = false

func judgeCaller(*net.UnixConn) (ours, agent bool) { return false, true }

func judgeListener(*net.UnixConn) error { return nil }

func judgePort(*net.TCPConn, netip.AddrPort) error { return nil }

// AncestorSessions returns none, because this system cannot identify the
// processes of agents.
func AncestorSessions() []string { return nil }

func isAgentProcess(*net.TCPConn) bool { return true }
