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
// with the server that started it; ln is nil then.
func (s *server) open(to *toStart) (ln *net.UnixListener, shut func()) {
	if to.Dir == "" || s.window <= 0 {
		s.window = 0
		return nil, func() {}
	}
	k := Takeover{Dir: to.Dir, Name: to.Name}
	self, ok := proc.Identify(os.Getpid())
	if !ok {
		s.window = 0
		return nil, func() {}
	}
	r := Record{Version: version, Supervisor: self, Boot: procinfo.BootID(), Nonce: s.nonce, Mark: s.agent.Mark(), Fence: s.agent.Fence(), Place: placeOf(k.Dir)}
	ln, err := k.listen()
	if err == nil {
		if err = k.write(r); err != nil {
			ln.Close()
		}
	}
	if err != nil {
		s.window = 0
		return nil, func() {}
	}
	return ln, func() {
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
	if err := s.handOver(c, g); err != nil {
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

// handOver connects the server at the other end of c, which has sent g.
func (s *server) handOver(c *net.UnixConn, g greeting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitLeave()
	if g.Keeps {
		s.stopRelay()
	}
	err := s.welcome(c, g)
	if !s.keeps {
		s.startRelay()
	}
	return err
}

// welcome answers a greeting with the descriptors of the output and of the
// spool. The caller holds s.mu.
func (s *server) welcome(c *net.UnixConn, g greeting) error {
	_ = c.SetDeadline(time.Now().Add(takeoverTime))
	switch {
	case s.control != nil:
		return fmt.Errorf("another server holds this agent")
	case s.over, s.stopping:
		return fmt.Errorf("the agent is being ended")
	}
	files := []int{
		outputFile: int(s.socket.Fd()), spoolFile: int(s.spool.output.Fd()), notesFile: int(s.spool.notes.Fd()), inputFile: int(s.input.Fd()),
	}
	var output *net.UnixConn
	if !g.Keeps {
		ours, theirs, err := socketPair()
		if err != nil {
			return err
		}
		defer theirs.Close()
		output, files[outputFile] = ours, int(theirs.Fd())
		if g.Start != nil {
			files = files[:spoolFile]
		}
	}
	holds := s.holds && g.Start == nil
	if holds {
		files = append(files, heldFD)
	}
	note := s.note
	if g.Start != nil {
		note = "" // the server that starts the agent has it
	}
	frame := appendJSON(nil, kindHello, welcome{
		Pid: s.agent.Pid(), Mark: s.agent.Mark(), Fence: s.agent.Fence(), Limits: s.limits, Kept: s.window > 0,
		Whole: s.spool.whole(), Notes: s.spool.noted, End: s.spool.end, Sent: s.sent, Holds: holds, Note: note,
	})
	if n, _, err := c.WriteMsgUnix(frame, unix.UnixRights(files...), nil); err != nil || n != len(frame) {
		if output != nil {
			output.Close()
		}
		return fmt.Errorf("hand over: %w", err)
	}
	_ = c.SetDeadline(time.Time{})
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.control, s.output, s.keeps = c, output, g.Keeps
	s.changed.Broadcast()
	if s.drained && output != nil {
		output.Close()
	}
	if s.exit != nil {
		_, _ = c.Write(appendJSON(nil, kindExit, *s.exit))
	}
	return nil
}
