package supervisor

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// child is the server's side of an agent under a supervisor. Its goroutines are
// outbox.Run, which writes frames, and readLoop, which reads frames. If this
// process started the supervisor, another goroutine waits for its end. The
// first two have ended when Done is closed, or after Detach.
type child struct {
	supervisor proc.Identity
	pid        int // process id of the agent
	mark       string
	fence      string
	limits     proc.Limits
	kept       bool // the supervisor can be found again
	redact     func([]byte) []byte
	control    *net.UnixConn
	output     output
	outbox     *proc.Outbox
	reaped     <-chan struct{} // closed when the supervisor was waited for, after ended is set; nil if another process started it
	ended      *string         // how the supervisor ended, for people

	done     chan struct{} // closed by readLoop, after the following two fields are set
	exit     exitReport
	err      error
	detached chan struct{} // closed by Detach

	mu       sync.Mutex
	sent     int64 // bytes of lines sent to the supervisor
	taken    int64 // bytes of lines that the agent has read
	max      int64 // maximum of sent - taken
	stops    sync.Once
	quits    sync.Once
	detaches sync.Once
}

// stopTimeout is the time, in addition to the ladder, after which a supervisor
// that does not stop its agent is killed.
const stopTimeout = 15 * time.Second

// outputTimeout is how long output may be read after the agent's end. After
// that the supervisor drops the rest.
const outputTimeout = 2 * time.Second

// disconnectTimeout is how long a supervisor that disconnected may take to end
// before it is killed.
const disconnectTimeout = time.Second

const defaultMaxOutbox = 64 << 20

// launch starts a supervisor that starts c.
func launch(ctx context.Context, c proc.Command, k Takeover) (Agent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Dir == "" { // the supervisor has another working directory
		dir, err := os.Getwd()
		if err != nil {
			return nil, failed(err)
		}
		c.Dir = dir
	}
	if k.Dir != "" {
		dir, err := filepath.Abs(k.Dir)
		if err != nil {
			return nil, failed(err)
		}
		k.Dir = dir
		if err := End(k); err != nil {
			return nil, failed(err)
		}
	}
	control, theirControl, err := socketPair()
	if err != nil {
		return nil, failed(err)
	}
	defer theirControl.Close()
	cmd, err := execute(k.Name, theirControl, c.Hold)
	if err != nil {
		control.Close()
		return nil, failed(err)
	}
	theirControl.Close()
	reaped, ended := make(chan struct{}), new(string)
	self, _ := proc.Identify(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		*ended = cmd.ProcessState.String()
		close(reaped)
	}()

	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	g := greeting{Version: version, Nonce: rand.Text(), Keeps: canKeep(), Start: &toStart{c, k.Dir, k.Name, int64(k.Window), c.Hold != nil}}
	w, files, err := greet(control, g)
	defer files.close()
	var out output
	if err == nil && w.Failed == nil {
		out, err = openOutput(files, g.Keeps, 0, 0)
	}
	ch := newChild(c, control, out)
	ch.limits = c.Limits
	ch.supervisor, ch.reaped, ch.ended = self, reaped, ended
	ch.pid, ch.mark, ch.fence, ch.kept = w.Pid, w.Mark, w.Fence, w.Kept
	if stop() && err == nil && w.Failed == nil {
		ch.run()
		return ch, nil
	}
	_ = cmd.Process.Kill()
	<-reaped
	control.Close()
	if out != nil {
		out.Close()
	}
	_, _ = ch.sweep() // the agent may have started already
	if k.Dir != "" {
		_ = End(k) // ends what the supervisor's record names, if the supervisor wrote one
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case w.Failed != nil:
		return nil, w.Failed.unpack()
	}
	return nil, failed(err)
}

func failed(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	return &proc.StartError{Program: "supervisor", Reason: proc.ReasonOf(err), Err: err}
}

// socketPair returns our end and the supervisor's end.
func socketPair() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, err := inherited(uintptr(pair[0]))
	if err != nil {
		unix.Close(pair[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(pair[1]), ""), nil
}

func newChild(c proc.Command, control *net.UnixConn, out output) *child {
	limit := int64(c.MaxOutbox)
	if limit <= 0 {
		limit = defaultMaxOutbox
	}
	return &child{
		redact: c.Redact, control: control, output: out, max: limit,
		outbox: proc.NewOutbox(control, int(limit)+1<<20), // 1 MiB more than lines may use, for the frames that stop the agent
		done:   make(chan struct{}), detached: make(chan struct{}),
	}
}

func (ch *child) run() {
	go ch.outbox.Run()
	go ch.readLoop()
}

// readLoop dispatches the frames of the supervisor until its exit report, or
// until it disconnects.
func (ch *child) readLoop() {
	r := bufio.NewReaderSize(ch.control, 4<<10)
	for {
		k, p, err := readFrame(r)
		switch {
		case err != nil:
			ch.onDisconnect()
			return
		case k == kindTaken:
			if n, _, err := cutOffset(p); err == nil {
				ch.mu.Lock()
				ch.taken = max(ch.taken, n)
				ch.mu.Unlock()
			}
		case k == kindExit:
			if json.Unmarshal(p, &ch.exit) != nil {
				ch.onDisconnect()
				return
			}
			if ch.exit.Lost != "" {
				ch.err = errors.New(ch.exit.Lost)
			}
			if ch.exit.Status.Leftover > 0 {
				ch.relieve()
			}
			close(ch.done)
			return
		}
	}
}

// onDisconnect handles a supervisor that ended without an exit report: it
// sweeps the agent's processes itself.
func (ch *child) onDisconnect() {
	if ch.isDetached() {
		return
	}
	why := "the agent's supervisor does not respond"
	if ch.supervisorEnds(disconnectTimeout) {
		why = "the agent's supervisor has ended"
		if ch.reaped != nil {
			why += " (" + *ch.ended + ")"
		}
	}
	if ch.isDetached() { // meanwhile: another server may take the agent over
		return
	}
	ch.killSupervisor()
	left, err := ch.sweep()
	ch.exit.Status = proc.ExitStatus{Code: -1, Leftover: left}
	ch.err = errors.Join(errors.New(why), err)
	ch.output.cut()
	ch.outbox.Abandon(proc.ErrStdinClosed)
	close(ch.done)
}

func (ch *child) isDetached() bool {
	select {
	case <-ch.detached:
		return true
	default:
		return false
	}
}

// killSupervisor kills a supervisor that does not respond, and waits for its
// end if this process started it.
func (ch *child) killSupervisor() {
	if now, ok := proc.Identify(ch.supervisor.Pid); ok && now == ch.supervisor {
		_ = unix.Kill(ch.supervisor.Pid, unix.SIGKILL)
	}
	if ch.reaped != nil {
		<-ch.reaped
	}
}

// relieve kills the processes that the supervisor could not kill, for example
// because the agent lowered its limits. Then it kills the supervisor. If
// processes remain, the supervisor stays as their ancestor.
func (ch *child) relieve() {
	left, err := ch.sweep()
	if err != nil || left > 0 {
		return
	}
	ch.exit.Status.Leftover = 0
	ch.killSupervisor()
}

func (ch *child) sweep() (left int, err error) {
	if ch.mark == "" {
		return 0, nil
	}
	return proc.Leftovers{Mark: ch.mark, Fence: ch.fence, Under: ch.supervisor, Orphans: proc.IsSubreaper()}.End()
}

// Limits implements [Agent].
func (ch *child) Limits() proc.Limits { return ch.limits }

// Pid implements [Agent].
func (ch *child) Pid() int { return ch.pid }

// Send implements [Agent].
func (ch *child) Send(line []byte, after int64) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.isClosed() {
		return proc.ErrStdinClosed
	}
	if ch.sent+int64(len(line))-ch.taken > ch.max {
		return proc.ErrOutboxFull
	}
	if err := ch.outbox.Send(appendFrame(nil, kindLine, offset(after), line)); err != nil {
		return err
	}
	ch.sent += int64(len(line))
	return nil
}

// isClosed reports whether no more lines can be sent to the agent.
func (ch *child) isClosed() bool {
	select {
	case <-ch.done:
		return true
	case <-ch.detached:
		return true
	default:
		return false
	}
}

// CloseInput implements [Agent].
func (ch *child) CloseInput() { _ = ch.outbox.Send(appendFrame(nil, kindClose)) }

// Begin implements [Agent].
func (ch *child) Begin(point Checkpoint, after int64) {
	b, err := json.Marshal(point)
	if err != nil {
		return // cannot fail: both fields marshal
	}
	_ = ch.outbox.Send(appendFrame(nil, kindBegin, offset(after), offset(ch.output.begin(after)), b))
}

// Stdout implements [Agent].
func (ch *child) Stdout() io.Reader { return ch.output }

// StderrTail implements [Agent].
func (ch *child) StderrTail() string {
	select {
	case <-ch.done:
	default:
		return ""
	}
	if ch.redact != nil {
		return string(ch.redact([]byte(ch.exit.Stderr)))
	}
	return ch.exit.Stderr
}

// Stop implements [Agent].
func (ch *child) Stop(ctx context.Context, l proc.Ladder) error {
	_ = ch.outbox.Send(appendJSON(nil, kindStop, l))
	ch.stops.Do(func() {
		go func() {
			late := time.NewTimer(stopTimeout + l.Drain + max(l.Interrupt, 0) + max(l.Terminate, 0))
			defer late.Stop()
			select {
			case <-ch.done:
			case <-ch.detached:
			case <-late.C:
				ch.killSupervisor() // readLoop detects the disconnect and sweeps
			}
		}()
	})
	_, err := ch.Wait(ctx)
	select {
	case <-ch.done:
		ch.releaseSupervisor()
		return nil
	case <-ch.detached:
		return nil
	default:
		return err
	}
}

// releaseSupervisor asks the supervisor to end, and waits for its end.
func (ch *child) releaseSupervisor() {
	ch.quits.Do(func() {
		_ = ch.outbox.Send(appendFrame(nil, kindQuit))
		ch.outbox.Finish()
		<-ch.outbox.Done() // closes control
		if ch.exit.Status.Leftover > 0 {
			ch.output.release() // the supervisor stays; see relieve
			return
		}
		ended := ch.supervisorEnds(outputTimeout)
		ch.output.release()
		if !ended && !ch.supervisorEnds(stopTimeout) {
			ch.killSupervisor()
		}
	})
}

// supervisorEnds waits for the end of the supervisor and reports whether it
// ended in time.
func (ch *child) supervisorEnds(within time.Duration) bool {
	if ch.reaped != nil {
		timer := time.NewTimer(within)
		defer timer.Stop()
		select {
		case <-ch.reaped:
			return true
		case <-timer.C:
			return false
		}
	}
	fd, err := unix.PidfdOpen(ch.supervisor.Pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	if now, ok := proc.Identify(ch.supervisor.Pid); !ok || now != ch.supervisor {
		return true
	}
	return ends(fd, within)
}

// Detach implements [Agent].
func (ch *child) Detach() bool {
	select {
	case <-ch.done:
		return false
	default:
	}
	if !ch.kept {
		return false
	}
	ch.detaches.Do(func() {
		close(ch.detached)
		ch.output.Close()  // before the supervisor continues with the output
		ch.outbox.Finish() // sent lines are still written
		<-ch.outbox.Done()
	})
	return true
}

// Done implements [Agent].
func (ch *child) Done() <-chan struct{} { return ch.done }

// Wait implements [Agent].
func (ch *child) Wait(ctx context.Context) (proc.ExitStatus, error) {
	select {
	case <-ch.done:
		return ch.exit.Status, ch.err
	default:
	}
	select {
	case <-ch.done:
		return ch.exit.Status, ch.err
	case <-ch.detached:
		return proc.ExitStatus{}, errors.New("the agent was left to its supervisor")
	case <-ctx.Done():
		return proc.ExitStatus{}, ctx.Err()
	}
}
