//go:build !linux

package auth

import (
	"net"
	"net/netip"
)

// canTell says that who is at the other end can be told in a way that an agent
// could not get round. Here it cannot: the socket gives no identity and a token
// is needed, and one that an agent found counts as anyone's.
const canTell = false

func judgeCaller(*net.UnixConn) (ours, agent bool) { return false, true }

func judgeListener(*net.UnixConn) error { return nil }

func judgePort(*net.TCPConn, netip.AddrPort) error { return nil }

// SessionsAbove returns none: nothing tells an agent's processes here.
func SessionsAbove() []string { return nil }

func agentBehind(*net.TCPConn) bool { return true }
