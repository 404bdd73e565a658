package auth

import (
	"net"
	"os"
)

// OtherUser reports whether a process of another user of this machine is at the
// other end of c, a TCP connection over loopback; also where that cannot be
// told, for instance because the process has closed its end already. Root may
// do all that we may, and forwards for others (as WSL does for the browsers of
// Windows): it counts as our user.
func OtherUser(c net.Conn) bool {
	if tls, ok := c.(interface{ NetConn() net.Conn }); ok {
		return OtherUser(tls.NetConn())
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	here, there := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	if !here.Addr().IsLoopback() || !there.Addr().IsLoopback() {
		return false
	}
	sock, err := findSocket(there, here)
	return err != nil || sock.inode == 0 || sock.uid != os.Geteuid() && sock.uid != 0 || !connected(tcp)
}
