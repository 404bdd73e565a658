// Package proc runs one child process with all its descendants, and ends all of
// them.
//
// A Process has these goroutines. All have ended when Done is closed:
//   - wait waits for the child's exit and for the end of its output, ends the
//     remaining descendants and reaps the child;
//   - Outbox.Run writes the child's stdin;
//   - tail.run reads the child's stderr;
//   - shared.await, after the exit and with Command.ShareStdout, waits for the
//     end of the child's stdout;
//   - climb, one for each call of Stop, ends when the child has ended.
//
// The caller reads stdout itself.
//
// Which descendants are found depends on the system:
//   - On Linux every descendant is found that is linked to the child by
//     parenthood, by a session of the tree, by an earlier survey, by
//     Command.Mark or by the fence (see Command.Fence). A process that detached
//     itself (forked, setsid, parent ended) before the first survey is found
//     only by its mark or fence.
//   - On Windows all processes in the fence are found.
//   - On macOS descendants are found as on Linux, without marks and fences.
//   - On other systems only the process group is found.
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

// Command describes the program to run. The child takes nothing from the
// caller's own process except the working directory if Dir is empty.
type Command struct {
	Path string   // the program, absolute
	Args []string // the arguments after the program's name
	Dir  string   // working directory. Default: the caller's own
	Env  []string // complete, as NAME=value; nothing is inherited. See Environ.

	// Mark names an environment variable that is set to a random value for this
	// child. All descendants inherit it and are found by it, however they
	// detach themselves. The name must end in MarkSuffix, by which package auth
	// recognises agents. Linux only. Default: none.
	Mark string

	// If Sole is true, this process is a subreaper (see BecomeSubreaper) and
	// runs nothing else. Every process that it adopts then belongs to the tree,
	// so no descendant can detach itself. Linux only.
	Sole bool

	// DieWithParent kills the child when this process ends for any reason. The
	// caller must be locked to the main thread, because the system kills the
	// child when the thread that started it ends. Linux only.
	DieWithParent bool

	// Fence requests a fence around the child and all its descendants, which
	// can kill all of them at once. On Linux it is a cgroup, if this process
	// may create one. On Windows every child has a fence, a job object. Other
	// systems have none.
	Fence bool

	// Limits bound the child and all its descendants together. They need a
	// fence, and EnableLimits before. If they cannot be enforced, Start fails
	// with the reason Unlimited. Default: no limits.
	Limits Limits

	// If ShareStdout is true, this process does not read the child's stdout. The
	// caller gives Process.StdoutFile to the processes that read it. Linux only.
	ShareStdout bool

	// If ShareStdin is true, Process.StdinFile returns a duplicate of our end of
	// the child's stdin. Linux only.
	ShareStdin bool

	// If Boxed is true, the program encloses the agent in a sandbox. Its
	// descriptor 3 is the file of this process's own program. Signals that ask a
	// child to end go to the process that the program has started: if the
	// program itself ended, the system would kill the agent at once. Linux only.
	Boxed bool

	// Hold is a file that the supervisor of the child keeps open, and returns to
	// a server that takes over. The child does not get it. Default: none.
	Hold *os.File `json:"-"`

	// Note is a text that the supervisor of the child keeps in its memory, and
	// returns to a server that takes over: at most 1 KiB. The child does not get
	// it. Default: none.
	Note string `json:",omitzero"`

	Redact    func([]byte) []byte `json:"-"` // removes secrets from StderrTail. Default: nothing is removed
	MaxOutbox int                 // bytes that may be queued for the child's stdin. Default 64 MiB
	MaxStderr int                 // bytes of StderrTail. Default 64 KiB
	Linger    time.Duration       // how long output may stay open after the child's exit. Default 2 s
}

const (
	defaultMaxOutbox = 64 << 20
	defaultMaxStderr = 64 << 10
	defaultLinger    = 2 * time.Second
)

// ExitStatus is the result of a child. A code other than 0 is not an error.
type ExitStatus struct {
	Code       int    // -1 if a signal ended it
	Signal     string // "SIGKILL", …; empty if no signal ended it
	StdoutHeld bool   // a descendant kept stdout open; its output after Linger is lost
	StderrHeld bool   // the same for stderr
	Leftover   int    // number of descendants that could not be killed

	MemoryKills  int `json:",omitzero"` // number of processes of the child that the system killed at Limits.MemoryMiB
	RefusedForks int `json:",omitzero"` // how often the system refused to start a process or thread at Limits.Processes
}

// Process is a running child. Its methods may be called from any goroutine, at
// any time, any number of times.
type Process struct {
	cmd    *exec.Cmd
	stdin  *Outbox
	shared *os.File // see StdinFile
	stdout output
	stderr *tail
	tree   *tree
	linger time.Duration
	boxed  bool // see Command.Boxed

	exited   chan struct{} // closed by wait when the child has ended; on Linux it is not reaped yet
	done     chan struct{} // closed by wait, after status and err are set
	stopping chan struct{} // closed by the first Stop
	status   ExitStatus
	err      error

	mu       sync.Mutex
	stopped  bool
	over     bool // Stop starts no more climb goroutines
	highest  rung // the highest rung taken so far
	climbers sync.WaitGroup
}

// Start runs c. Its error is a *StartError or the error of ctx. ctx bounds only
// the start.
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
		stdin:    NewOutbox(newInput(child.stdin), withDefault(c.MaxOutbox, defaultMaxOutbox)),
		shared:   child.shared,
		stdout:   newOutput(child.stdout, c.ShareStdout),
		stderr:   newTail(child.stderr, withDefault(c.MaxStderr, defaultMaxStderr), c.Redact),
		tree:     newTree(child.cmd.Process.Pid, child.mark, child.fence, c.Sole),
		linger:   withDefault(c.Linger, defaultLinger),
		boxed:    c.Boxed,
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

// Mark returns the variable that every descendant inherits, as NAME=value. It
// is empty without Command.Mark.
func (p *Process) Mark() string { return p.tree.mark }

// Fence returns the path of the child's fence, or "" if it has none that can be
// found again.
func (p *Process) Fence() string { return p.tree.fence.where() }

// Pid returns the child's process id. The system may reuse the id once Done is
// closed.
func (p *Process) Pid() int { return p.tree.root.pid }

// Send queues a copy of line for the child's stdin and never blocks. It returns
// ErrOutboxFull, or ErrStdinClosed if stdin can no longer be written. Success
// does not mean that the child reads the line: see Outbox and Flush.
func (p *Process) Send(line []byte) error { return p.stdin.Send(line) }

// CloseStdin closes the child's stdin after the queue has been written. It does
// not wait.
func (p *Process) CloseStdin() { p.stdin.Finish() }

// Outbox returns the number of bytes that the child has not yet read and, if it
// is not 0, the time of the last progress.
func (p *Process) Outbox() (queued int, stalled time.Time) { return p.stdin.State() }

// Flush waits until all queued bytes have been written to the child's stdin.
func (p *Process) Flush(ctx context.Context) error { return p.stdin.Flush(ctx) }

// Stdout returns the child's standard output. It ends with io.EOF, never with
// another error, after everything that the child wrote. If a descendant still
// holds it open Linger after the exit, it is cut (see ExitStatus.StdoutHeld).
// Done does not wait for its reader. With Command.ShareStdout it is empty.
func (p *Process) Stdout() io.Reader { return p.stdout }

// StdoutFile returns our end of the child's stdout with Command.ShareStdout,
// else nil. It is a socket that does not block. Once Done is closed it ends
// after everything that the child wrote. The caller closes it after Done.
func (p *Process) StdoutFile() *os.File {
	if s, ok := p.stdout.(interface{ file() *os.File }); ok {
		return s.file()
	}
	return nil
}

// StdinFile returns a duplicate of our end of the child's stdin if
// Command.ShareStdin is set, else nil. A process that holds a duplicate keeps the
// input open when this process is killed. CloseStdin ends the input nevertheless.
// The caller closes the file.
func (p *Process) StdinFile() *os.File { return p.shared }

// StderrTail returns the last output of the child on standard error. The text
// is redacted, valid UTF-8 without control characters, and begins with a line.
// It omits a line that is still incomplete.
func (p *Process) StderrTail() string { return p.stderr.text() }

// Done returns a channel that is closed when the child is reaped, its output
// has ended or was cut, and its descendants were swept.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done. Its error is the error of ctx, or reports that the exit
// status is unknown.
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
	} else { // cut before the sweep, which may end the process that holds it open
		p.status.StdoutHeld = p.stdout.detach()
		p.sweep()
	}
	p.status.StderrHeld = p.stderr.close() || p.status.StderrHeld
	<-p.stdin.done

	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.climbers.Wait()

	p.reap()
	p.tree.fence.note(&p.status)
	p.tree.fence.close()
	close(p.done)
}

// sweep kills the child's descendants. Until the child is reaped, the id of its
// process group is not reused.
func (p *Process) sweep() {
	if heldUntilReaped {
		endGroup(p.Pid())
	}
	p.status.Leftover = p.tree.sweep()
}

// Sweep tries again to kill the remaining descendants and returns how many are
// left. Call it after Done.
func (p *Process) Sweep() (left int) { return p.tree.sweep() }

// settle waits for the end of both outputs. It returns false if they did not
// end within linger. It returns true at once after Stop was called, because
// further output is not needed then.
func (p *Process) settle() bool {
	timer := time.NewTimer(p.linger)
	defer timer.Stop()
	p.stdout.takeOver()
	for _, end := range []<-chan struct{}{p.stdout.ended(), p.stderr.end} {
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

// bare returns an error without the paths and names that the os package adds.
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
