package auth

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// judgeListener judges who listens on a unix socket.
func judgeListener(c *net.UnixConn) error {
	p, err := procinfo.Listener(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrServerAgent, err)
	}
	defer p.Close()
	switch {
	case p.UID != os.Geteuid():
		return ErrServerUser
	case p.Pid == os.Getpid(): // as in a test
		return p.Verify()
	case fromAgent(p.Pid), p.Unsure && !procinfo.HasArgument(p.Pid, serveCommand), p.Verify() != nil:
		return ErrServerAgent
	}
	return nil
}

// serveCommand is an argument of every server. It tells a server from other
// processes that hide what they hold and, before Linux 6.5, from a foreign
// process with the pid of an agent's that has ended.
const serveCommand = "serve"

// judgePort judges who listens at an address of loopback, and who accepted c,
// which was dialed there: another program may listen by now. A server hides its
// descriptors, so this looks for an agent's process that holds one of the two
// sockets, or may: one that hides its descriptors counts. If no other process
// may hold the socket that listens, it is rejected, too: an agent can hide it
// in a message on its way. What processes of root hold cannot be seen.
func judgePort(c *net.TCPConn, there netip.AddrPort) error {
	sock, err := findListener(there)
	switch {
	case err != nil:
		return err
	case sock.uid != os.Geteuid() && sock.uid != 0:
		return ErrServerUser
	}
	// After the above: what nobody has accepted yet waits at that socket.
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

// belowAgent reports whether an ancestor of a process belongs to an agent, or
// whether that cannot be determined. A supervisor itself is below none.
func belowAgent(self []procinfo.Kin, pid int) bool {
	line, err := procinfo.Lineage(pid)
	if procinfo.IsGone(err) {
		return false // it holds nothing any more
	}
	return err != nil || hasAgent(self, line[1:])
}
