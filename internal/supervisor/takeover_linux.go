package supervisor

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// open writes the record and listens for servers that take over, if Takeover
// asks for it. shut undoes both. If open fails, the agent still runs, but ends
// with the server that started it.
func (s *server) open(to *toStart) (shut func()) {
	if to.Dir == "" || s.window <= 0 {
		s.window = 0
		return func() {}
	}
	k := Takeover{Dir: to.Dir, Name: to.Name}
	self, ok := proc.Identify(os.Getpid())
	if !ok {
		s.window = 0
		return func() {}
	}
	r := Record{Version: version, Supervisor: self, Boot: procinfo.BootID(), Nonce: s.nonce, Mark: s.agent.Mark(), Fence: s.agent.Fence()}
	ln, err := k.listen()
	if err == nil {
		if err = k.write(r); err != nil {
			ln.Close()
		}
	}
	if err != nil {
		s.window = 0
		return func() {}
	}
	go s.accept(ln)
	return func() {
		ln.Close()
		k.remove(r.Nonce)
	}
}

// accept handles takeovers, one at a time.
func (s *server) accept(ln *net.UnixListener) {
	for {
		c, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		if err := s.takeover(c); err != nil {
			_, _ = c.Write(appendJSON(nil, kindHello, welcome{Refused: err.Error()}))
			c.Close()
		}
	}
}

// takeoverTime bounds each step of the handshake of a takeover.
const takeoverTime = 2 * time.Second

func (s *server) takeover(c *net.UnixConn) error {
	if err := checkCaller(c); err != nil { // may take seconds on a busy machine
		return err
	}
	_ = c.SetDeadline(time.Now().Add(takeoverTime))
	g, err := hello(c)
	switch {
	case err != nil:
		return err
	case g.Version != version:
		return fmt.Errorf("this supervisor speaks version %d, not %d", version, g.Version)
	case g.Nonce != s.nonce:
		return fmt.Errorf("this is another supervisor")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[1])
	output, err := inherited(uintptr(pair[0]))
	if err != nil {
		return err
	}
	if err := s.handOver(c, output, pair[1]); err != nil {
		output.Close()
		return err
	}
	go s.readLoop(c)
	return nil
}

// leaveTime is how long a takeover waits for the previous server to disconnect.
// If that server was just killed, the supervisor may not have detected it yet.
const leaveTime = time.Second

// awaitLeave waits until no server is connected, at most leaveTime. The caller
// holds s.mu.
func (s *server) awaitLeave() {
	late := false
	timer := time.AfterFunc(leaveTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for s.control != nil && !s.over && !late {
		s.changed.Wait()
	}
}

// handOver hands the agent over to the server at the other end of c.
func (s *server) handOver(c, output *net.UnixConn, theirs int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitLeave()
	_ = c.SetDeadline(time.Now().Add(takeoverTime))
	switch {
	case s.control != nil:
		return fmt.Errorf("another server holds this agent")
	case s.over, s.stopping:
		return fmt.Errorf("the agent is being ended")
	}
	w := welcome{
		Pid: s.agent.Pid(), Mark: s.agent.Mark(), Fence: s.agent.Fence(), Spool: s.spool.size, Whole: s.spool.whole, Sent: s.sent,
	}
	frame := appendJSON(nil, kindHello, w)
	rights := unix.UnixRights(theirs, int(s.spool.f.(*os.File).Fd()))
	if n, _, err := c.WriteMsgUnix(frame, rights, nil); err != nil || n != len(frame) {
		return fmt.Errorf("hand over: %w", err)
	}
	_ = c.SetDeadline(time.Time{})
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.control, s.output, s.spool.shared = c, output, true
	s.changed.Broadcast()
	if s.drained {
		output.Close()
	}
	if s.exit != nil {
		_, _ = c.Write(appendJSON(nil, kindExit, *s.exit))
	}
	return nil
}
