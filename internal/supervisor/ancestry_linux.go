package supervisor

import (
	"errors"
	"net"
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// isSupervisor reports whether a process is a supervisor or has ended.
func isSupervisor(pid int) bool {
	is, err := procinfo.IsSupervisor(pid)
	return is || os.IsNotExist(err) && pid > 1
}

// checkCaller rejects a process that may not take over from this supervisor.
func checkCaller(c *net.UnixConn) error {
	p, err := procinfo.Caller(c)
	if err != nil {
		return err
	}
	defer p.Close()
	p.MayHide = true // a server hides its descriptors
	return checkPeer(p)
}

// checkListener rejects a connection to any process but this supervisor.
func checkListener(c *net.UnixConn, supervisor int) error {
	p, err := procinfo.Listener(c)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Pid != supervisor || !isSupervisor(supervisor) {
		return errors.New("another process")
	}
	return checkPeer(p)
}

// checkPeer rejects other users, processes that an agent started, and a process
// that has ended. In the last case an agent may hold the connection, and
// another process may have reused the id.
func checkPeer(p *procinfo.Peer) error {
	switch {
	case p.UID != os.Getuid():
		return errors.New("another user")
	case procinfo.Supervised(p.Pid):
		return errors.New("a process that an agent started")
	}
	return p.Verify()
}
