// Package agentconn contains what providers share if their agents are processes
// that exchange lines with Runnel.
//
// A provider supplies the program to start and a [Translator]. A translator is
// a pure function of the lines that pass in both directions. A [Conn] does the
// rest. It starts the program under a supervisor and processes the lines of
// both directions in one order, which recordings have too. It writes the
// translator's replies and marks where turns begin, and a restarted server can
// take over in the middle of a turn. The provider makes the messages that
// Conn.Send writes.
//
// One process serves one conversation, even if the agent could serve several.
// Supervision, takeover, stopping and crash detection work on processes, and a
// process that fails ends one conversation only.
package agentconn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// drain is how long an agent may take to exit by itself after its input is
// closed.
const drain = 2 * time.Second

// maxStart bounds what an agent may print before it is ready, in bytes. The
// events wait in memory until then. Some agents repeat a whole conversation
// here.
const maxStart = 256 << 20

// eventSize is the minimum size that a waiting event counts as, in bytes.
const eventSize = 1 << 10

// startTime bounds the time until an agent is ready. Some agents first download
// a part of themselves.
const startTime = 5 * time.Minute

// A Translator translates the lines between Runnel and one agent to events. It
// is pure: the same lines in the same order give the same events with the same
// ids, live, from a recording, and in a restarted server. A Conn calls it with
// its lock held.
type Translator interface {
	// Sent processes a line that Runnel writes to the agent. Its events are
	// only for readers of a recording: a live session logs the prompt or the
	// decision before it sends the line.
	Sent(line []byte, at time.Time) []event.Event

	// Printed processes a line that the agent printed. line is nil if the line
	// is not UTF-8 or contains NUL. Values in it that the agent nested deeper
	// than jsonl.MaxLevels are null. The second result is the messages to write
	// at once. They pass through Sent as well.
	Printed(line []byte, at time.Time) ([]event.Event, []any)

	// Flush returns the events that the translator still holds. It is called
	// after the agent has exited.
	Flush() []event.Event

	// About returns what a sent or due line means to a restarted server that
	// takes over.
	About(line []byte) About

	// Skipped returns how many messages of the agent had no meaning so far, and
	// how many of its lines could not be decoded.
	Skipped() (messages, lines int)

	// Unknown returns the types of the agent's messages since the last call
	// whose type the translator does not know. Skipped counts them too.
	Unknown() []string

	// Waiting returns the ids of the open approvals.
	Waiting() []string

	// Checkpoint returns the state from which a new translator can continue
	// with the next turn. It reports false while background work is running. A
	// restarted server then uses an earlier checkpoint.
	Checkpoint() ([]byte, bool)

	// Restore sets the state that Checkpoint returned.
	Restore(state []byte) error
}

// About is the meaning of a line that Runnel sends.
type About struct {
	Prompt    string // id of the turn that the line begins, or ""
	Settles   string // name of the due reply; this line is that reply
	Interrupt bool   // the line interrupts a turn
}

// An Agent names an agent in messages to users.
type Agent struct {
	Name    string // "Claude Code"
	Install string // command that installs the agent
	Try     string // command that shows whether the agent works
}

// A Conn is one conversation with one process. It has no goroutine of its own:
// Next reads the process's output in the caller's goroutine.
type Conn struct {
	process supervisor.Agent
	agent   Agent
	lines   *jsonl.Reader            // used by Handshake, then by Next
	tap     func(runnel.Dir, []byte) // never nil
	tapping func() bool              // whether tap uses lines now; never nil
	tapAll  bool                     // the tap needs the agent's standard error, however late the agent exits
	ready   []event.Event            // used by Next only
	starts  time.Duration            // maximum duration of a handshake
	counts  *runnel.Counters
	unknown func(typ string, line []byte) // nil: nobody keeps these lines
	box     *surroundings                 // nil: the agent needs nothing of this process

	mu    sync.Mutex // guards the following fields and the order of lines
	tr    Translator
	base  int64 // offset in the agent's output at which lines begins
	read  int64 // offset in the agent's output up to which tr has processed it
	ended bool  // tap has received the agent's standard error
}

// New returns a Conn with a running process. The caller may use tr within Do
// only.
func New(p supervisor.Agent, agent Agent, tr Translator, opt runnel.Options) *Conn {
	c := &Conn{process: p, agent: agent, lines: jsonl.NewReader(p.Stdout(), 0), tap: opt.Tap, tapping: opt.Tapping, tapAll: opt.Tapping == nil, tr: tr, starts: startTime, counts: cmp.Or(opt.Counters, new(runnel.Counters)), unknown: opt.Unknown}
	switch {
	case c.tap == nil:
		c.tap, c.tapping = func(runnel.Dir, []byte) {}, func() bool { return false }
	case c.tapping == nil:
		c.tapping = func() bool { return true }
	}
	return c
}

// Do runs f while no line passes. What f sends follows the last line that the
// translator has processed.
func (c *Conn) Do(f func(send func(message any) error) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f(c.write)
}

// Send queues one message, encoded as JSON, and does not wait for the agent.
func (c *Conn) Send(message any) error {
	return c.Do(func(send func(any) error) error { return send(message) })
}

// Prompt sends the message that compose returns and marks it as the beginning
// of a turn.
func (c *Conn) Prompt(in runnel.Input, compose func() (any, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	message, err := compose()
	if err != nil {
		return err
	}
	if state, ok := c.tr.Checkpoint(); ok {
		c.process.Begin(supervisor.Checkpoint{Log: in.After, State: state}, c.read)
		c.mark(recording.Mark{Mark: recording.Turn, State: state})
	}
	return c.write(message)
}

// Handshake calls negotiate, which reads lines with next until the agent is
// ready for a prompt. Conn.Next later returns the events of those lines.
// Handshake stops the process if negotiate fails, takes too long, or ctx ends.
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
	if whole.Err() != nil {
		return runnel.Fail(runnel.Timeout, c.agent.Name+" was not ready before the request ended", whole.Err(), err)
	}
	if fault := c.limitFault(); fault != nil {
		fault.Code = runnel.SessionCreateFailed
		return fault
	}
	if ctx.Err() != nil {
		return runnel.Fail(runnel.Timeout, c.agent.Name+" was not ready after "+c.starts.String()+". Try it in a terminal: "+c.agent.Try, ctx.Err(), err)
	}
	return err
}

// next returns the agent's next line after the translator has processed it.
func (c *Conn) next() ([]byte, error) {
	for {
		line, err := c.lines.Next()
		full := max(c.lines.Offset(), int64(len(c.ready))*eventSize) > maxStart
		if err == nil && full {
			err = runnel.Fail(runnel.ProtocolError, c.agent.Name+" printed too much before it was ready. Try it in a terminal: "+c.agent.Try)
		}
		if _, long := errors.AsType[*jsonl.TooLongError](err); long && !full {
			c.ready = append(c.ready, c.tooLongNotice())
			continue
		}
		if err != nil {
			return nil, err
		}
		c.ready = append(c.ready, c.translate(line)...)
		if jsonl.Crowded(line) {
			continue
		}
		return jsonl.Shallow(line), nil
	}
}

// An End tells a provider why its agent did not start.
type End struct {
	Stderr string // the end of standard error, not to be shown to users, because it may contain secrets
	Exit   string // how the agent ended, such as "exit status 1"; empty if it did not end by itself
	Err    error  // why Exit is empty, for the log
}

// Says returns the beginning of the error for users, without a period.
func (e End) Says(agent string) string {
	says := agent + " ended before it was ready"
	if e.Exit != "" {
		says += " (" + e.Exit + ")"
	}
	return says
}

// Ended returns how the process ended. If it does not end by itself within the
// drain period, Ended kills it.
func (c *Conn) Ended() End {
	var e End
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	st, err := c.process.Wait(ctx)
	if e.Err = err; err == nil {
		e.Exit = cmp.Or(st.Signal, fmt.Sprintf("exit status %d", st.Code))
	}
	c.process.Stop(context.Background(), proc.Now)
	e.Stderr = c.process.StderrTail()
	return e
}

// translate passes a line of the agent through the translator and writes the
// replies that are due.
func (c *Conn) translate(line []byte) []event.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = c.base + c.lines.Offset()
	if c.tapping() {
		c.tap(runnel.DirOut, line)
	}
	messages, lines := c.tr.Skipped()
	evs, due := c.tr.Printed(decodable(line), time.Now())
	moreMessages, moreLines := c.tr.Skipped()
	if n := moreMessages - messages; n > 0 { // sessions share the counters, so most lines do not touch them
		c.counts.Messages.Add(int64(n))
		for _, typ := range c.tr.Unknown() {
			if typ = c.counts.CountUnknown(typ); c.unknown != nil {
				c.unknown(typ, line)
			}
		}
	}
	if n := moreLines - lines; n > 0 {
		c.counts.Lines.Add(int64(n))
	}
	for _, m := range due {
		_ = c.write(m) // a process that cannot be written to is about to exit
	}
	return evs
}

// decodable returns what a translator receives of a line of the agent: nil if
// the line is no text or has too many values, and null in the place of values
// that are nested too deep to be decoded.
func decodable(line []byte) []byte {
	if !jsonl.Valid(line) || jsonl.Crowded(line) {
		return nil
	}
	return jsonl.Shallow(line)
}

// write queues one message. The caller holds c.mu. write drops the events of
// the message, because the session has already logged them.
func (c *Conn) write(v any) error {
	message, err := encode(v)
	if err != nil {
		return err
	}
	line, err := jsonl.Append(nil, message)
	if err != nil {
		return runnel.Fail(runnel.Internal, "a message to the agent could not be encoded", err)
	}
	if err := c.process.Send(line, c.read); err != nil {
		if errors.Is(err, proc.ErrOutboxFull) {
			return runnel.Fail(runnel.AgentStalled, c.agent.Name+" does not read its input. Cancel, or end the session.", err)
		}
		return runnel.Fail(runnel.ProcessCrash, c.agent.Name+" has ended. Send again to resume the conversation.", err)
	}
	message = bytes.TrimRight(line, "\n")
	if c.tapping() {
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
		return nil, runnel.Fail(runnel.Internal, "a message to the agent could not be encoded", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

var tooLong = event.Notice{
	Level: event.LevelWarning, Code: "LINE_TOO_LONG", Message: "The agent printed a message that is too long; it was left out.",
}

// tooLongNotice returns the notice for a line that is too long.
func (c *Conn) tooLongNotice() event.Event {
	c.counts.Lines.Add(1)
	return event.Event{At: time.Now(), Body: tooLong}
}

// Next implements [runnel.Conn].
func (c *Conn) Next(ctx context.Context) (event.Event, error) {
	for len(c.ready) == 0 {
		if err := ctx.Err(); err != nil {
			return event.Event{}, err
		}
		if err := c.step(); err != nil {
			return event.Event{}, err
		}
	}
	return c.pop(), nil
}

// Buffered implements [runnel.BufferedConn].
func (c *Conn) Buffered() (event.Event, bool) {
	for len(c.ready) == 0 {
		if !c.lines.Buffered() || c.step() != nil { // Next returns the error again
			return event.Event{}, false
		}
	}
	return c.pop(), true
}

func (c *Conn) pop() event.Event {
	ev := c.ready[0]
	c.ready = c.ready[1:]
	return ev
}

// step reads one line and sets c.ready to its events.
func (c *Conn) step() error {
	line, err := c.lines.Next()
	switch _, long := errors.AsType[*jsonl.TooLongError](err); {
	case long:
		c.ready = []event.Event{c.tooLongNotice()}
	case errors.Is(err, io.EOF):
		c.end()
		c.mu.Lock()
		c.ready = c.tr.Flush()
		c.mu.Unlock()
		if len(c.ready) > 0 {
			return nil
		}
		if fault := c.limitFault(); fault != nil {
			return fault
		}
		return io.EOF
	case err != nil:
		return runnel.Fail(runnel.ProcessCrash, c.agent.Name+"'s output cannot be read", err)
	case c.lines.Torn() && !json.Valid(line): // the agent exited in the middle of a line
	default:
		c.ready = c.translate(line)
	}
	return nil
}

// mark passes a mark to tap.
func (c *Conn) mark(m recording.Mark) {
	if !c.tapping() {
		return
	}
	if !json.Valid(m.State) {
		m.State = nil
	}
	if text, err := json.Marshal(m); err == nil { // cannot fail: State is valid JSON
		c.tap(runnel.DirMeta, text)
	}
}

// end passes the end of the agent's standard error to tap, once. Unless tapAll
// is set, it waits for the agent's exit only for the drain period, because the
// session waits for the end of the turn.
func (c *Conn) end() {
	if !c.tapping() {
		return
	}
	ctx, cancel := context.Background(), func() {}
	if !c.tapAll {
		ctx, cancel = context.WithTimeout(ctx, drain)
	}
	defer cancel()
	if _, err := c.process.Wait(ctx); err != nil {
		select {
		case <-c.process.Done():
		default:
			return // the process continues under its supervisor
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
func (c *Conn) Detach() bool {
	if !c.process.Detach() {
		return false
	}
	c.box.leave()
	return true
}

// Close implements [runnel.Conn]. It closes the agent's input, and stops the
// agent if it does not exit within the drain period.
func (c *Conn) Close() error {
	err := c.process.Stop(context.Background(), proc.Ladder{Drain: drain})
	if err == nil {
		c.box.wait()
	}
	return err
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
	return c.exitStatus(st), true
}

func (c *Conn) exitStatus(st proc.ExitStatus) runnel.ExitStatus {
	return runnel.ExitStatus{Code: st.Code, Signal: st.Signal, StdoutHeld: st.StdoutHeld, Limit: c.process.Limits().Reached(st).Limit}
}

// limitFault returns the error of an agent that ended because it reached one of
// its limits, and nil for every other agent. It waits for the exit of the agent
// for the drain period.
func (c *Conn) limitFault() *runnel.Error {
	limits := c.process.Limits()
	if limits == (proc.Limits{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	st, err := c.process.Wait(ctx)
	if err != nil {
		return nil
	}
	reached := limits.Reached(st)
	if reached.Limit == "" {
		return nil
	}
	fault := runnel.Fail(runnel.ProcessCrash, c.agent.Name+" ended after it and its processes had reached their "+reached.Text+
		". Raise the limit in the server's configuration, or send again to resume the conversation.")
	fault.Details = c.exitStatus(st)
	return fault
}

// Process returns the agent's process.
func (c *Conn) Process() supervisor.Agent { return c.process }
