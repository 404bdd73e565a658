package supervisor

import (
	"errors"
	"net"
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// isSupervisor reports whether a process is a supervisor, or is gone.
func isSupervisor(pid int) bool {
	is, err := procinfo.IsSupervisor(pid)
	return is || os.IsNotExist(err) && pid > 1
}

// checkCaller refuses a process that may not take over from this supervisor.
func checkCaller(c *net.UnixConn) error {
	p, err := procinfo.Caller(c)
	if err != nil {
		return err
	}
	defer p.Close()
	p.MayHide = true // as a server does
	return checkPeer(p)
}

// checkListener refuses to take over from any process but this supervisor.
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

// checkPeer refuses other users, whatever an agent started, and a process that
// has ended: an agent may hold its end of the connection, and another process
// may have its pid.
func checkPeer(p *procinfo.Peer) error {
	switch {
	case p.UID != os.Getuid():
		return errors.New("another user")
	case procinfo.Supervised(p.Pid):
		return errors.New("a process that an agent started")
	}
	return p.Verify()
}
