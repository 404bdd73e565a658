package auth

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// judgeListener checks the process that listens on a unix socket.
func judgeListener(c *net.UnixConn) error {
	p, err := procinfo.Listener(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrServerAgent, err)
	}
	defer p.Close()
	switch {
	case p.UID != os.Geteuid():
		return ErrServerUser
	case p.Pid == os.Getpid(): // for example in a test
		return p.Verify()
	case fromAgent(p.Pid), p.Unsure && !procinfo.HasArgument(p.Pid, serveCommand), p.Verify() != nil:
		return ErrServerAgent
	}
	return nil
}

// serveCommand is an argument of every server. It distinguishes a server from
// other processes that hide their descriptors. Before Linux 6.5 it also
// distinguishes a server from another process that has the reused pid of an
// agent's process.
const serveCommand = "serve"

// judgePort checks the process that listens at a loopback address, and the
// process that accepted c, which was dialed there. They may differ by now.
//
// A server hides its descriptors, so judgePort cannot find the server itself.
// Instead it looks for an agent's process that holds, or may hold, one of the
// two sockets; a process that hides its descriptors may hold them. It also
// returns an error if no other process may hold the listening socket, because
// an agent can hide a socket in a message in transit. The descriptors of root's
// processes cannot be seen.
func judgePort(c *net.TCPConn, there netip.AddrPort) error {
	sock, err := findListener(there)
	switch {
	case err != nil:
		return err
	case sock.uid != os.Geteuid() && sock.uid != 0:
		return ErrServerUser
	}
	// This must follow findListener: a connection that has not been accepted
	// yet belongs to the listening socket.
	end, err := findSocket(there, addressOf(c.LocalAddr()))
	if err != nil {
		return err
	}
	self, err := procinfo.Lineage(os.Getpid())
	if err != nil {
		return err
	}
	pids, err := procinfo.Pids()
	if err != nil {
		return err
	}
	held := sock.uid != os.Geteuid()
	for _, pid := range pids {
		listens := procinfo.MayHold(pid, sock.inode)
		if !listens && (end.inode == 0 || !procinfo.MayHold(pid, end.inode)) {
			continue
		}
		if belowAgent(self, pid) {
			return ErrServerAgent
		}
		shown, _ := procinfo.HoldsSocket(pid, sock.inode)
		held = held || shown || listens && procinfo.HasArgument(pid, serveCommand)
	}
	if !held || !connected(c) {
		return ErrServerAgent
	}
	return nil
}

// belowAgent reports whether an ancestor of a process belongs to an agent. It
// also returns true if that cannot be determined. It does not check the process
// itself, which may be a supervisor.
func belowAgent(self []procinfo.Process, pid int) bool {
	line, err := procinfo.Lineage(pid)
	if procinfo.IsGone(err) {
		return false // an ended process holds no socket
	}
	return err != nil || hasAgent(self, line[1:])
}
