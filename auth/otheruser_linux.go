package auth

import (
	"net"
	"os"
)

// OtherUser reports whether a process of another user of this machine is at the
// other end of c. It returns false if c is not a TCP connection from this machine.
// It returns true if the user cannot be determined, for example because the
// process has already closed its end.
//
// A process of root counts as our user's: root can do anything that we can, and
// it forwards connections of others, as WSL does for browsers on Windows.
func OtherUser(c net.Conn) bool {
	if tls, ok := c.(interface{ NetConn() net.Conn }); ok {
		return OtherUser(tls.NetConn())
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	here, there := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	if !onThisMachine(there.Addr()) {
		return false
	}
	sock, err := findSocket(there, here)
	return err != nil || sock.inode == 0 || sock.uid != os.Geteuid() && sock.uid != 0 || !connected(tcp)
}
