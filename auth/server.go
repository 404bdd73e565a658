package auth

import (
	"errors"
	"net"
)

// Reasons why [CheckServer] rejects a server.
var (
	ErrServerAgent = errors.New("the process that listens there was started by an agent, or hides who started it")
	ErrServerUser  = errors.New("the process that listens there belongs to another user")
)

// CheckServer returns an error if the process at the other end of c may be an
// agent of ours or belong to another user. c was just dialed, and the client
// must not send anything after an error. CheckServer identifies the process in
// the same way as [NewPeer] identifies a caller.
//
// On TCP it checks only loopback connections. It accepts a server of root
// there, for example a proxy. If this system cannot identify agents, it checks
// nothing.
func CheckServer(c net.Conn) error {
	if !canTell {
		return nil
	}
	switch c := c.(type) {
	case *net.UnixConn:
		return judgeListener(c)
	case *net.TCPConn:
		if there := addressOf(c.RemoteAddr()); there.Addr().IsLoopback() {
			return judgePort(c, there)
		}
	}
	return nil
}
