// Package proc runs one child process and everything it starts, and leaves
// nothing of it behind.
//
// A Process has these goroutines. All belong to it and have ended when Done is
// closed:
//   - wait sees the child die, holds the completion barrier, sweeps and reaps;
//   - Outbox.Run owns the child's stdin and ends with it;
//   - tail.run owns the child's stderr and ends with it;
//   - climb, one for each call of Stop, ends when the child has.
//
// Stdout has none: its caller reads it.
//
// How much is left behind depends on the system. On Linux every descendant is
// found that is still linked to the child: by parenthood, by a session of the
// tree, by an earlier look, or by Command.Mark. A process that detached itself
// (forked, setsid, parent gone) before anyone looked is found by its mark only.
// With a fence (see Command.Fence) it is found by that, too. On Windows it is
// the fence. On macOS it is as on Linux without marks and fences, and as good
// as the process table; elsewhere it is the process group.
package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Command is what to run. Nothing in it is taken from the caller's own process
// except an empty Dir.
type Command struct {
	Path string   // the program, absolute
	Args []string // what follows the program's name
	Dir  string   // Default: the caller's own
	Env  []string // complete, as NAME=value; nothing is inherited. See Environ.

	// Mark names an environment variable that is set to a random value for this
	// child alone. All descendants inherit it, and are found by it however they
	// detach themselves. The name ends in MarkSuffix, by which package auth
	// recognises agents. Linux only. Default: none.
	Mark string

	// Sole says that this process is a subreaper (see BecomeSubreaper) and runs
	// nothing else: whoever falls to it is of the tree, so that none can detach
	// itself. Linux only.
	Sole bool

	// DieWithParent ends the child at once when this process ends, however that
	// comes. The caller must be locked to the main thread: the system means the
	// thread that started the child. Linux only.
	DieWithParent bool

	// Fence asks for a fence of the system's around the child and all it
	// starts, which ends all of it at once: a cgroup on Linux, where ours may
	// hold others. On Windows there always is one, a job object. Elsewhere
	// there is none.
	Fence bool

	Redact    func([]byte) []byte `json:"-"` // takes secrets out of StderrTail. Default: nothing is taken out
	MaxOutbox int                 // bytes that may wait for the child's stdin. Default 64 MiB
	MaxStderr int                 // bytes of StderrTail. Default 64 KiB
	Linger    time.Duration       // how long output may stay open after the child has exited. Default 2 s
}

const (
	defaultMaxOutbox = 64 << 20
	defaultMaxStderr = 64 << 10
	defaultLinger    = 2 * time.Second
)

// ExitStatus is how a child ended. A code other than 0 is data, not an error.
type ExitStatus struct {
	Code       int    // -1 if a signal ended it
	Signal     string // "SIGKILL", …; empty if none did
	StdoutHeld bool   // a descendant kept stdout open; what it wrote after Linger is lost
	StderrHeld bool   // the same for stderr
	Leftover   int    // descendants that could not be ended
}

// Process is a running child. Its methods may be called from any goroutine, at
// any time, any number of times.
type Process struct {
	cmd    *exec.Cmd
	stdin  *Outbox
	stdout *stdout
	stderr *tail
	tree   *tree
	linger time.Duration

	exited   chan struct{} // closed by wait: the child is dead, and on Linux not yet reaped
	done     chan struct{} // closed by wait, after status and err are set
	stopping chan struct{} // closed by the first Stop
	status   ExitStatus
	err      error

	mu       sync.Mutex
	stopped  bool
	over     bool // no climber may start any more
	highest  rung // the highest that was taken
	climbers sync.WaitGroup
}

// Start runs c. An error is a *StartError, or that of ctx, which bounds the
// start and nothing after it.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	child, err := spawn(c)
	if err != nil {
		return nil, err
	}
	p := &Process{
		cmd:      child.cmd,
		stdin:    NewOutbox(child.stdin, withDefault(c.MaxOutbox, defaultMaxOutbox)),
		stdout:   newStdout(child.stdout),
		stderr:   newTail(child.stderr, withDefault(c.MaxStderr, defaultMaxStderr), c.Redact),
		tree:     newTree(child.cmd.Process.Pid, child.mark, child.fence, c.Sole),
		linger:   withDefault(c.Linger, defaultLinger),
		exited:   make(chan struct{}),
		done:     make(chan struct{}),
		stopping: make(chan struct{}),
	}
	go p.stdin.Run()
	go p.stderr.run()
	go p.wait()
	return p, nil
}

func withDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Mark returns the variable that every descendant inherits, as NAME=value;
// empty without Command.Mark.
func (p *Process) Mark() string { return p.tree.mark }

// Fence returns where the child's fence is; empty if it has none that could be
// found again.
func (p *Process) Fence() string { return p.tree.fence.where() }

// Pid returns the child's process id. It means nothing any more once Done is
// closed.
func (p *Process) Pid() int { return p.tree.root.pid }

// Send queues line for the child's stdin as it is, and never blocks. It keeps
// no reference to line. It fails with ErrOutboxFull, or ErrStdinClosed once
// nothing can be written any more. That a line was taken does not mean that it
// will be read: see Outbox and Flush.
func (p *Process) Send(line []byte) error { return p.stdin.Send(line) }

// CloseStdin ends the child's stdin after what is queued has been written. It
// does not wait.
func (p *Process) CloseStdin() { p.stdin.Finish() }

// Outbox returns how many bytes the child has not yet taken and, if there are
// any, since when it has taken none.
func (p *Process) Outbox() (queued int, stalled time.Time) { return p.stdin.State() }

// Flush waits until the child's stdin has taken all that is queued.
func (p *Process) Flush(ctx context.Context) error { return p.stdin.Flush(ctx) }

// Stdout returns the child's standard output. It ends with io.EOF once all that
// the child wrote was read, and nothing else: when a descendant still holds it
// Linger after the exit, it is cut (ExitStatus.StdoutHeld). Done does not wait
// for its reader.
func (p *Process) Stdout() io.Reader { return p.stdout }

// StderrTail returns the last of what the child wrote to standard error:
// redacted, without control characters, valid UTF-8, and from the start of a
// line. A line still being written is left out.
func (p *Process) StderrTail() string { return p.stderr.text() }

// Done is closed when the child is reaped, its output has ended or was cut, and
// what it left behind is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done. The error is that of ctx, or says that the system could
// not tell the exit status.
func (p *Process) Wait(ctx context.Context) (ExitStatus, error) {
	select {
	case <-p.done:
		return p.status, p.err
	default:
	}
	select {
	case <-p.done:
		return p.status, p.err
	case <-ctx.Done():
		return ExitStatus{}, ctx.Err()
	}
}

func (p *Process) wait() {
	awaitExit(p.cmd)
	close(p.exited)
	p.stdin.Abandon(ErrStdinClosed)
	if p.settle() {
		p.sweep()
		p.status.StdoutHeld = p.stdout.detach()
	} else { // cut before the sweep, which may end who holds it
		p.status.StdoutHeld = p.stdout.detach()
		p.sweep()
	}
	p.status.StderrHeld = p.stderr.close() || p.status.StderrHeld
	<-p.stdin.gone

	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.climbers.Wait()

	p.reap()
	p.tree.fence.close()
	close(p.done)
}

// sweep ends what the child has left behind. Until it is reaped its number, and
// so its group's, is no one else's.
func (p *Process) sweep() {
	if heldUntilReaped {
		endGroup(p.Pid())
	}
	p.status.Leftover = p.tree.sweep()
}

// Sweep tries once more to end what could not be ended, and returns how many
// processes are left. It is called after Done.
func (p *Process) Sweep() (left int) { return p.tree.sweep() }

// settle waits for the end of both outputs. It reports false if they did not
// end in time. When the process is being stopped it does not wait: nobody has a
// claim to more output.
func (p *Process) settle() bool {
	timer := time.NewTimer(p.linger)
	defer timer.Stop()
	p.stdout.takeOver()
	for _, end := range []<-chan struct{}{p.stdout.end, p.stderr.end} {
		select {
		case <-end:
		case <-p.stopping:
			return true
		case <-timer.C:
			p.status.StderrHeld = !closed(p.stderr.end)
			return false
		}
	}
	return true
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *Process) reap() {
	err := reap(p.cmd)
	var exit *exec.ExitError
	switch {
	case err == nil || errors.As(err, &exit):
		p.status.Code = p.cmd.ProcessState.ExitCode()
		p.status.Signal = signalName(p.cmd.ProcessState)
	default:
		p.status.Code = -1
		p.err = errors.New("exit status was lost: " + bare(err).Error())
	}
}

// bare strips an error of the paths and names that the os package adds.
func bare(err error) error {
	var path *os.PathError
	var sys *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &sys):
		return sys.Err
	}
	return err
}
