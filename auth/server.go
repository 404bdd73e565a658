package auth

import (
	"errors"
	"net"
)

// Why [CheckServer] rejects who listens.
var (
	ErrServerAgent = errors.New("the process that listens there was started by an agent, or hides who started it")
	ErrServerUser  = errors.New("the process that listens there belongs to another user")
)

// CheckServer fails if the server at the other end of c, which was just dialed,
// may be an agent of ours or another user: a client sends nothing to it.
// Whoever listens is identified as a caller is by [NewPeer].
//
// On TCP it judges loopback only, where root may listen, too, as a proxy does.
// It judges nothing on a system on which agents cannot be identified.
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
