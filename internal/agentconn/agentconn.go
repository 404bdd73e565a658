// Package agentconn is what providers share whose agents are processes that
// speak in lines.
//
// A provider gives a [Translator], a pure function of the lines that pass in
// both directions, and the program to start. A [Conn] does the rest: it starts
// the program under a supervisor, keeps the lines in the order in which a
// recording has them, writes the replies of the translator, marks where a turn
// begins, and lets a restarted server take over in the middle of a turn. The
// provider makes the messages that Conn.Send writes.
//
// One process serves one conversation, also where an agent could serve several:
// the process is the unit that is supervised, taken over, stopped and found
// dead, and one that fails takes no other conversation with it.
package agentconn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// drain is how long an agent has to leave by itself once its input is closed.
const drain = 2 * time.Second

// maxStart bounds what an agent may print before it is ready, in bytes: its
// events wait in memory until then. Some agents repeat a whole conversation.
const maxStart = 256 << 20

// eventSize is what an event that waits counts for at least, in bytes.
const eventSize = 1 << 10

// startTime is how long an agent may take until it is ready: some download a
// part of themselves first.
const startTime = 5 * time.Minute

// A Translator turns what passes between us and one agent into events. It is
// pure: the same lines in the same order give the same events with the same
// ids, live, from a recording, and in a restarted server. A Conn calls it with
// its lock held.
type Translator interface {
	// Sent takes a line that we wrote to the agent. Its events are for readers
	// who have nothing but the lines: a live session recorded the prompt or the
	// decision before it had it written.
	Sent(line []byte, at time.Time) []event.Event

	// Printed takes a line that the agent wrote, nil for one that is not JSON.
	// The second result is what to write at once, without asking anyone; it
	// passes through Sent as well.
	Printed(line []byte, at time.Time) ([]event.Event, []any)

	// Gone returns the events that are held back, once the agent has exited.
	Gone() []event.Event

	// About returns what a line that was sent, or is due, means to a restarted
	// server that takes over.
	About(line []byte) About

	// Skipped returns how many messages of the agent meant nothing so far, and
	// how many of its lines could not be decoded.
	Skipped() (messages, lines int)

	// Waiting returns the ids of the open approvals.
	Waiting() []string

	// Checkpoint returns all that a translator has to know to begin with the
	// next turn. It reports false while background work goes on: a restarted
	// server then begins at an earlier checkpoint.
	Checkpoint() ([]byte, bool)

	// Restore takes what Checkpoint returned.
	Restore(state []byte) error
}

// About is what a line of ours means.
type About struct {
	Prompt    string // id of the turn that it begins, or ""
	Settles   string // name of the reply that was due; this line is that reply
	Interrupt bool   // it asks the agent to end its turn early
}

// An Agent is how messages to users name an agent.
type Agent struct {
	Name    string // "Claude Code"
	Install string // command that installs it
	Try     string // command that shows whether it works
}

// A Conn is one conversation with one process. It has no goroutine of its own:
// Next reads the process's output in the goroutine of its caller.
type Conn struct {
	process supervisor.Agent
	agent   Agent
	lines   *jsonl.Reader // belongs to Next, and before that to Handshake
	tap     func(runnel.Dir, []byte)
	ready   []event.Event // belongs to Next
	starts  time.Duration // how long a handshake may take
	counts  *runnel.Counters

	mu    sync.Mutex // guards the following fields, and the order of lines
	tr    Translator
	base  int64 // offset of lines in the agent's output
	read  int64 // offset in the agent's output up to which the translator has it
	ended bool  // tap has the agent's standard error
}

// New returns a Conn with a process that runs. The caller's own methods may use
// tr within Do.
func New(p supervisor.Agent, agent Agent, tr Translator, opt runnel.Options) *Conn {
	return &Conn{process: p, agent: agent, lines: jsonl.NewReader(p.Stdout(), 0), tap: opt.Tap, tr: tr, starts: startTime, counts: cmp.Or(opt.Counters, new(runnel.Counters))}
}

// Do runs f while no line passes. What f sends comes right after the last line
// that the translator has seen.
func (c *Conn) Do(f func(send func(message any) error) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f(c.write)
}

// Send writes one message, as JSON, and never waits for the agent.
func (c *Conn) Send(message any) error {
	return c.Do(func(send func(any) error) error { return send(message) })
}

// Prompt sends the message that compose makes as the beginning of a turn.
func (c *Conn) Prompt(in runnel.Input, compose func() (any, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	message, err := compose()
	if err != nil {
		return err
	}
	if state, ok := c.tr.Checkpoint(); ok {
		c.process.Begin(supervisor.Checkpoint{Log: in.After, State: state}, c.read)
	}
	return c.write(message)
}

// Handshake calls negotiate, which reads lines with next until the agent is
// ready for a prompt. Next returns the events of those lines later. If
// negotiate fails, takes too long or ctx ends, the process is stopped.
func (c *Conn) Handshake(ctx context.Context, negotiate func(next func() ([]byte, error)) error) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, c.starts)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.process.Stop(context.WithoutCancel(ctx), proc.Now) })
	defer stop()
	err := negotiate(c.next)
	if err == nil && stop() {
		return nil
	}
	c.process.Stop(context.WithoutCancel(ctx), proc.Now)
	switch {
	case whole.Err() != nil:
		return runnel.Fail(runnel.Timeout, "starting "+c.agent.Name+" was given up", whole.Err(), err)
	case ctx.Err() != nil:
		return runnel.Fail(runnel.Timeout, c.agent.Name+" was not ready after "+c.starts.String()+". Try it in a terminal: "+c.agent.Try, ctx.Err(), err)
	}
	return err
}

// next returns a line of the agent once the translator has seen it.
func (c *Conn) next() ([]byte, error) {
	for {
		line, err := c.lines.Next()
		full := max(c.lines.Offset(), int64(len(c.ready))*eventSize) > maxStart
		if err == nil && full {
			err = runnel.Fail(runnel.ProtocolError, c.agent.Name+" prints without end and does not get ready. Try it in a terminal: "+c.agent.Try)
		}
		if _, long := errors.AsType[*jsonl.TooLongError](err); long && !full {
			c.ready = append(c.ready, c.leftOut())
			continue
		}
		if err != nil {
			return nil, err
		}
		c.ready = append(c.ready, c.translate(line)...)
		return line, nil
	}
}

// Ended stops the process and returns what it wrote to standard error, for a
// provider that wants to know why its agent did not start. The text must not be
// shown to users: it may hold anything.
func (c *Conn) Ended() string {
	c.process.Stop(context.Background(), proc.Now)
	return c.process.StderrTail()
}

// translate passes a line of the agent through the translator and writes the
// replies that are due at once.
func (c *Conn) translate(line []byte) []event.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = c.base + c.lines.Offset()
	if c.tap != nil {
		c.tap(runnel.DirOut, line)
	}
	if !jsonl.Valid(line) {
		line = nil
	}
	messages, lines := c.tr.Skipped()
	evs, due := c.tr.Printed(line, time.Now())
	moreMessages, moreLines := c.tr.Skipped()
	if n := moreMessages - messages; n > 0 { // sessions share the counters: most lines leave them alone
		c.counts.Messages.Add(int64(n))
	}
	if n := moreLines - lines; n > 0 {
		c.counts.Lines.Add(int64(n))
	}
	for _, m := range due {
		_ = c.write(m) // a process that cannot be written to is about to exit anyway
	}
	return evs
}

// write sends one message; c.mu is held. The events of the message are dropped:
// the session recorded what it means before it called us.
func (c *Conn) write(v any) error {
	message, err := encode(v)
	if err != nil {
		return err
	}
	line, err := jsonl.Append(nil, message)
	if err != nil {
		return runnel.Fail(runnel.Internal, "a message to the agent could not be made", err)
	}
	if err := c.process.Send(line, c.read); err != nil {
		if errors.Is(err, proc.ErrOutboxFull) {
			return runnel.Fail(runnel.AgentStalled, c.agent.Name+" does not take its input. Cancel, or end the session.", err)
		}
		return runnel.Fail(runnel.ProcessCrash, c.agent.Name+" has ended. Send again to resume the conversation.", err)
	}
	message = bytes.TrimRight(line, "\n")
	if c.tap != nil {
		c.tap(runnel.DirIn, message)
	}
	c.tr.Sent(message, time.Now())
	return nil
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, runnel.Fail(runnel.Internal, "a message to the agent could not be made", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

var tooLong = event.Notice{
	Level: event.LevelWarning, Code: "LINE_TOO_LONG", Message: "The agent printed a message that is too long; it was left out.",
}

// leftOut returns the event that stands for a line that is too long.
func (c *Conn) leftOut() event.Event {
	c.counts.Lines.Add(1)
	return event.Event{At: time.Now(), Body: tooLong}
}

// Next implements [runnel.Conn].
func (c *Conn) Next(ctx context.Context) (event.Event, error) {
	for len(c.ready) == 0 {
		if err := ctx.Err(); err != nil {
			return event.Event{}, err
		}
		line, err := c.lines.Next()
		switch _, long := errors.AsType[*jsonl.TooLongError](err); {
		case long:
			c.ready = []event.Event{c.leftOut()}
		case errors.Is(err, io.EOF):
			c.end()
			c.mu.Lock()
			c.ready = c.tr.Gone()
			c.mu.Unlock()
			if len(c.ready) == 0 {
				return event.Event{}, io.EOF
			}
		case err != nil:
			return event.Event{}, runnel.Fail(runnel.ProcessCrash, c.agent.Name+"'s output broke off", err)
		case c.lines.Torn() && !json.Valid(line): // the agent died in the middle of a line
		default:
			c.ready = c.translate(line)
		}
	}
	ev := c.ready[0]
	c.ready = c.ready[1:]
	return ev, nil
}

// end adds what the agent wrote to standard error to the recording.
func (c *Conn) end() {
	if c.tap == nil {
		return
	}
	if _, err := c.process.Wait(context.Background()); err != nil {
		select {
		case <-c.process.Done():
		default:
			return // the process runs on, under its supervisor
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	for line := range strings.Lines(c.process.StderrTail()) {
		c.tap(runnel.DirErr, []byte(strings.TrimSuffix(line, "\n")))
	}
}

// Detach implements [runnel.Detacher].
func (c *Conn) Detach() bool { return c.process.Detach() }

// Close implements [runnel.Conn]: it closes the agent's input, and stops the
// agent if it does not exit by itself.
func (c *Conn) Close() error {
	return c.process.Stop(context.Background(), proc.Ladder{Drain: drain})
}

// ExitStatus implements [runnel.Exiter].
func (c *Conn) ExitStatus() (runnel.ExitStatus, bool) {
	select {
	case <-c.process.Done():
	default:
		return runnel.ExitStatus{}, false
	}
	st, err := c.process.Wait(context.Background())
	if err != nil {
		return runnel.ExitStatus{}, false
	}
	return runnel.ExitStatus{Code: st.Code, Signal: st.Signal, StdoutHeld: st.StdoutHeld}, true
}

// Process returns the agent that the connection is with.
func (c *Conn) Process() supervisor.Agent { return c.process }
