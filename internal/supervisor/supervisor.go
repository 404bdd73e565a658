// Package supervisor runs each agent under a supervisor process.
//
// The supervisor is this program, executed again. It runs one agent with
// package proc, and in addition
//   - it is the subreaper of all descendants of the agent, so that none can
//     detach itself;
//   - it ends the agent and its descendants when the server disconnects, at
//     once or after Takeover.Window unless another server takes over;
//   - it passes on the agent's input, and keeps the spool: everything that
//     passed since the start of the turn. A server that takes over continues
//     from there.
//
// The agent's output does not pass through the supervisor while a server is
// connected. The server reads the agent's socket and keeps what it reads in the
// spool, a file in memory that both processes hold. The supervisor sleeps until
// its connection to the server breaks. Then it reads the output itself.
// Whichever process is killed, at whatever moment, what the agent has printed
// is in the spool or still in the socket. Where the server cannot do this (see
// canKeep), the supervisor relays the output.
//
// Supervisors exist only on Linux, in a program whose main calls Main.
// Elsewhere Start runs the agent directly with package proc.
//
// The protocol is in wire.go, the supervisor process in serve_linux.go, its
// spool in spool_linux.go and backlog.go, and its relay in relay_linux.go. The
// server's side is in child_linux.go, its reading of the output in
// kept_linux.go, and the search for a running supervisor in record_linux.go
// and attach_linux.go.
package supervisor

import (
	"context"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel/internal/proc"
)

// Takeover describes how a later server finds the supervisor. With the zero
// value it cannot be found, and the agent ends with this process.
type Takeover struct {
	Dir    string        // private directory for its record and its socket. Default: it cannot be found
	Name   string        // name of the session, unique within Dir; letters, digits and dashes
	Window time.Duration // how long the agent runs without a server. Default: it ends at once
}

// Agent is a running agent, with or without a supervisor. Its methods have the
// same rules as those of proc.Process.
type Agent interface {
	// Pid returns the agent's process id. The system may reuse the id once Done
	// is closed.
	Pid() int

	// Send queues line for the agent's input and never blocks. after is the
	// number of output bytes, from the start of the process, that the caller
	// had processed when it made the line. A replay uses after to restore the
	// order. Send returns proc.ErrOutboxFull or proc.ErrStdinClosed.
	Send(line []byte, after int64) error

	// CloseInput closes the agent's input after the queued lines. It does not
	// wait.
	CloseInput()

	// Begin marks the start of a turn. A server that takes over receives point
	// and everything that passes from here on. after is as for Send.
	Begin(point Checkpoint, after int64)

	// Stdout returns the agent's output.
	Stdout() io.Reader

	// StderrTail returns the last output of the agent on standard error. With a
	// supervisor it is empty until Done is closed.
	StderrTail() string

	// Stop ends the agent and all its descendants, and returns when Done is
	// closed. ctx bounds only the wait.
	Stop(ctx context.Context, l proc.Ladder) error

	// Detach leaves the agent to its supervisor, so that another process can
	// take over within Takeover.Window. It returns false and does nothing if
	// that is impossible.
	Detach() bool

	// Limits returns the limits with which the agent was started.
	Limits() proc.Limits

	// Done returns a channel that is closed when the agent and its descendants
	// have ended. It is not closed after Detach.
	Done() <-chan struct{}

	// Wait waits for Done.
	Wait(ctx context.Context) (proc.ExitStatus, error)
}

// Checkpoint is the state at the start of a turn.
type Checkpoint struct {
	Log   int64  `json:"log"`   // the position in the session's log
	State []byte `json:"state"` // the state of the translator, in the translator's encoding
}

var enabled atomic.Bool // Main was called, so this program can be executed as a supervisor

// Enabled reports whether agents get supervisors.
func Enabled() bool { return enabled.Load() && supported() }

// Start runs c, under a supervisor if supervisors are enabled. It enables the
// limits of c. Errors are those of proc.Start.
func Start(ctx context.Context, c proc.Command, k Takeover) (Agent, error) {
	if err := proc.EnableLimits(c.Limits); err != nil {
		return nil, &proc.StartError{Program: filepath.Base(c.Path), Reason: proc.Unlimited, Err: err}
	}
	if Enabled() {
		return launch(ctx, c, k)
	}
	p, err := proc.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return direct{p, c.Limits}, nil
}

// direct is an agent without a supervisor.
type direct struct {
	*proc.Process
	limits proc.Limits
}

func (d direct) Send(line []byte, _ int64) error { return d.Process.Send(line) }
func (d direct) CloseInput()                     { d.Process.CloseStdin() }
func (direct) Begin(Checkpoint, int64)           {}
func (direct) Detach() bool                      { return false }
func (d direct) Limits() proc.Limits             { return d.limits }
