// Package supervisor puts a process of ours between us and each agent.
//
// The supervisor is this program, executed again. It runs one agent as package
// proc does, and beyond that
//   - it is the subreaper of everything the agent starts, so that nothing can
//     detach itself from it;
//   - it holds a lifeline to us: when we are gone, however that came, it ends
//     the agent and all it started, at once or after Keep.Window without anyone
//     who takes over;
//   - it relays the agent's input and output, and keeps what passed since the
//     turn began in its spool, from which a server that takes over continues as
//     if nothing had happened.
//
// Linux only, and only in a program whose main calls Main. Elsewhere Start runs
// the agent directly, and what it leaves behind is found as well as package
// proc can.
//
// What passes between us and a supervisor is in wire.go, the spool in spool.go,
// the supervisor's own life in serve.go, our side of it in child.go, and how
// one is found again in record.go and attach.go.
package supervisor

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel/internal/proc"
)

// Keep says how a supervisor is found again. The zero value: never, and the
// agent ends when we do.
type Keep struct {
	Dir    string        // for its record and its socket; ours alone. Default: it cannot be found
	Name   string        // of the conversation, unique within Dir; letters, digits and dashes
	Window time.Duration // how long the agent goes on without us. Default: it does not
}

// Agent is a running agent, with a supervisor or without. Its methods are those
// of proc.Process and may be called as they may.
type Agent interface {
	// Pid returns the agent's process id. It means nothing any more once Done
	// is closed.
	Pid() int

	// Send queues line for the agent's input and never blocks. after is how
	// much of the agent's output, in bytes from the start of the process, had
	// been taken account of when line was made: a replay feeds them in that
	// order. It fails with proc.ErrOutboxFull or proc.ErrStdinClosed.
	Send(line []byte, after int64) error

	// Begin says that what is sent next begins a turn: whoever takes over needs
	// what passes from here on, and point. after is as for Send.
	Begin(point Checkpoint, after int64)

	// Stdout is what the agent prints, to its end.
	Stdout() io.Reader

	// StderrTail returns the end of what the agent wrote to standard error.
	// With a supervisor it is known at the end only.
	StderrTail() string

	// Stop ends the agent and everything it started, and returns when Done is
	// closed. ctx bounds only the wait.
	Stop(ctx context.Context, l proc.Ladder) error

	// Detach leaves the agent to its supervisor, for another process to take
	// over within Keep.Window. It reports false if that cannot be; then nothing
	// has happened.
	Detach() bool

	// Done is closed when the agent, and what it started, is gone; not after
	// Detach.
	Done() <-chan struct{}

	// Wait waits for Done.
	Wait(ctx context.Context) (proc.ExitStatus, error)
}

// Checkpoint is what a turn began with.
type Checkpoint struct {
	Log   int64  `json:"log"`   // the position of the conversation's log
	State []byte `json:"state"` // of the translator, in its own form
}

var enabled atomic.Bool // Main was called: this program can be executed again

// Enabled reports whether agents get supervisors.
func Enabled() bool { return enabled.Load() && supported() }

// Start runs c: under a supervisor where there can be one. Errors are those of
// proc.Start.
func Start(ctx context.Context, c proc.Command, k Keep) (Agent, error) {
	if Enabled() {
		return launch(ctx, c, k)
	}
	p, err := proc.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return direct{p}, nil
}

// direct is an agent without a supervisor.
type direct struct{ *proc.Process }

func (d direct) Send(line []byte, _ int64) error { return d.Process.Send(line) }
func (direct) Begin(Checkpoint, int64)           {}
func (direct) Detach() bool                      { return false }
