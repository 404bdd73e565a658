package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/confine"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// supported reports whether this system provides what a supervisor needs.
var supported = sync.OnceValue(proc.CanBeSubreaper)

// Main must be called first in main. In a process that was started as a
// supervisor it runs the supervisor and never returns. Otherwise it returns at
// once and enables supervisors for agents. No program that the process starts
// inherits descriptors that the process itself inherited.
func Main() {
	keepInherited()
	bridge.Main()
	confine.Main()
	if _, ok := procinfo.SupervisedSession(os.Args); ok {
		os.Exit(serve())
	}
	enabled.Store(true)
}

// controlFD is the descriptor of the connection that a supervisor inherits.
const controlFD = 3

// abandoned is the Ladder for an agent whose server has ended. It is short, but
// lets the agent write its files.
var abandoned = proc.Ladder{Interrupt: 400 * time.Millisecond, Terminate: 200 * time.Millisecond}

// server is the state of a supervisor. Its goroutines are accept (takeovers),
// readLoop (one per connection), reportExit, relay (the agent's output, unless
// the connected server reads it) and, while lines wait for the agent,
// reportTaken. All of them end with the process.
type server struct {
	agent  *proc.Process
	socket *os.File // the agent's output. The poller does not watch it: it would wake this process for each line that a server reads
	input  *os.File // our end of the agent's input, for servers; see kept.input
	trim   *trimmer
	nonce  string
	window time.Duration
	limits proc.Limits
	holds  bool   // heldFD is open
	note   string // proc.Command.Note

	finished chan struct{} // closed by finish

	mu       sync.Mutex
	changed  *sync.Cond // signals a change of control, output, relaying, halted or over
	spool    *spool
	control  *net.UnixConn // connection to the connected server, or nil
	keeps    bool          // the connected server keeps the agent's output itself; see kept
	output   *net.UnixConn // connection to which relay writes the output, or nil
	relaying *os.File      // from which relay reads the output; nil if relay is not running
	halted   bool          // relay must end
	sent     int64         // bytes of lines sent to the agent
	sending  bool          // reportTaken is running
	drained  bool          // the agent's output has ended
	exit     *exitReport   // nil until the agent has ended
	exitSent bool          // exit was sent to the connected server, if any
	stopping bool          // a server has asked the agent to end, so none can take over
	over     bool          // no server can take over any more
	ending   bool          // finished is closed
	expiry   *time.Timer   // timer of the takeover window
}

// serve runs a supervisor and returns the exit code of its process.
func serve() int {
	runtime.LockOSThread()   // the agent is killed when the thread that started it ends
	debug.SetGCPercent(10)   // the heap is nearly empty
	debug.SetMaxThreads(200) // limits the damage of a bug
	unix.CloseOnExec(controlFD)
	_ = unix.Close(imageFD) // no longer needed
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP, unix.SIGPIPE, unix.SIGXFSZ) // the agent would inherit ignored signals
	if _, err := proc.BecomeSubreaper(); err != nil {
		return 1
	}
	control, err := inherited(controlFD)
	if err != nil {
		return 1
	}
	g, err := hello(control)
	if err != nil || g.Start == nil || g.Version != version {
		return 1
	}
	if g.Start.Holds {
		unix.CloseOnExec(heldFD)
	}
	s, err := begin(g)
	if err != nil {
		_, _ = control.Write(appendJSON(nil, kindHello, welcome{Failed: packFailure(err)}))
		return 1
	}
	ln, shut := s.open(g.Start)
	defer shut()
	if err := s.handOver(control, g); err != nil {
		_ = s.agent.Stop(context.Background(), proc.Now)
		return 1
	}
	if ln != nil {
		go s.accept(ln)
	}
	go s.readLoop(control)
	go s.reportExit()
	s.handleTerm()
	<-s.finished
	return 0
}

func inherited(fd uintptr) (*net.UnixConn, error) {
	f := os.NewFile(fd, "")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a unix socket")
	}
	return u, nil
}

func hello(c *net.UnixConn) (greeting, error) {
	var g greeting
	k, p, err := readFrame(c)
	if err == nil && k != kindHello {
		err = errors.New("no greeting")
	}
	if err == nil {
		err = json.Unmarshal(p, &g)
	}
	return g, err
}

// begin starts the agent.
func begin(g greeting) (*server, error) {
	spool, err := newSpool(maxSpool)
	if err != nil {
		return nil, &proc.StartError{Program: "supervisor", Reason: proc.NoResources, Err: err}
	}
	c := g.Start.Command
	c.Sole, c.DieWithParent, c.Fence, c.ShareStdout, c.ShareStdin = true, true, true, true, true
	agent, err := proc.Start(context.Background(), c)
	if err != nil {
		return nil, err
	}
	socket := agent.StdoutFile()
	_ = countShown(int(socket.Fd())) // a server keeps the output only if this succeeds; see peeks
	s := &server{
		agent: agent, socket: socket, input: agent.StdinFile(), trim: newTrimmer(), nonce: g.Nonce, window: time.Duration(g.Start.Window),
		limits: c.Limits, holds: g.Start.Holds, note: c.Note, finished: make(chan struct{}), spool: spool,
	}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

// handleTerm ends the agent when this process receives SIGTERM.
func (s *server) handleTerm() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		s.abandon(proc.Ladder{})
	}()
}

// finish lets the process end when no server needs it any more. The caller
// holds s.mu.
func (s *server) finish() {
	if s.over && s.exitSent && (s.drained || s.output == nil) && !s.ending {
		s.ending = true
		close(s.finished)
	}
}

// readLoop dispatches the frames of a server until it disconnects.
func (s *server) readLoop(c *net.UnixConn) {
	for {
		k, p, err := readFrame(c)
		if err == nil {
			err = s.dispatch(k, p)
		}
		if err != nil {
			s.onDisconnect(c)
			return
		}
	}
}

// dispatch executes one frame of a server. An error disconnects the server.
func (s *server) dispatch(k kind, p []byte) error {
	s.trim.note()
	switch k {
	case kindLine:
		after, line, err := cutOffset(p)
		if err != nil {
			return err
		}
		s.line(line, after)
	case kindBegin:
		after, p, err := cutOffset(p)
		if err != nil {
			return err
		}
		lost, point, err := cutOffset(p)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.spool.begin(point, after, lost, time.Now())
		s.mu.Unlock()
	case kindClose:
		s.agent.CloseStdin()
	case kindStop:
		var l proc.Ladder
		if err := json.Unmarshal(p, &l); err != nil {
			return err
		}
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		go s.agent.Stop(context.Background(), l)
	case kindQuit:
		s.abandon(proc.Now)
	}
	return nil
}

// line passes a line to the agent.
func (s *server) line(line []byte, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spool.note(note{what: noteLine, place: after, at: time.Now(), p: line})
	s.sent += int64(len(line))
	_ = s.agent.Send(line) // an agent that cannot be written to is about to end
	if !s.sending {
		s.sending = true
		go s.reportTaken()
	}
}

// reportTaken reports how many bytes of lines the agent has read, each time the
// agent has read all of them.
func (s *server) reportTaken() {
	for reported := int64(-1); ; {
		_ = s.agent.Flush(context.Background())
		s.mu.Lock()
		sent, to := s.sent, s.control
		if sent == reported {
			s.sending = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		reported = sent
		if to != nil {
			_, _ = to.Write(appendFrame(nil, kindTaken, offset(sent)))
		}
	}
}

// onDisconnect closes the connection and starts the window in which another
// server may take over. There is no window if the agent is being ended: its
// last output would look like the result of its work.
func (s *server) onDisconnect(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Close()
	if s.control != c {
		return
	}
	s.control = nil
	s.changed.Broadcast()
	if s.over {
		return // output that is still being sent or read belongs to the last server
	}
	if s.keeps {
		s.keeps = false
		s.recoverOutput()
		s.startRelay()
	}
	if s.output != nil {
		s.output.Close()
		s.output = nil
	}
	if s.window <= 0 || s.stopping {
		go s.abandon(abandoned)
		return
	}
	s.expiry = time.AfterFunc(s.window, func() {
		s.mu.Lock()
		alone := s.control == nil
		s.mu.Unlock()
		if alone {
			s.abandon(abandoned)
		}
	})
}

// abandon ends the agent. After it no server can take over.
func (s *server) abandon(l proc.Ladder) {
	s.mu.Lock()
	if !s.over {
		s.over = true
		s.changed.Broadcast()
		s.finish()
	}
	s.mu.Unlock()
	_ = s.agent.Stop(context.Background(), l)
}

// sweepEvery is the interval at which a supervisor retries to kill remaining
// processes.
const sweepEvery = time.Second

// reportExit sends the agent's exit report to the connected server, if any. The
// supervisor then stays while any process of the agent remains. As long as such
// a process is below a supervisor it is recognised as part of an agent, and the
// next server can end it.
func (s *server) reportExit() {
	st, err := s.agent.Wait(context.Background())
	report := exitReport{Status: st, Stderr: s.agent.StderrTail()}
	if err != nil {
		report.Lost = err.Error()
	}
	s.mu.Lock()
	s.exit = &report
	to := s.control
	s.mu.Unlock()
	if to != nil {
		_, _ = to.Write(appendJSON(nil, kindExit, report))
	}
	for left := st.Leftover; left > 0; left = s.agent.Sweep() {
		<-time.After(sweepEvery)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exitSent = true
	s.finish()
}
