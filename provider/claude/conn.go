package claude

import (
	"bytes"
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

// conn is one conversation with one process.
//
// It has no goroutine of its own: Next reads the process's output in its
// caller's. What is written and what is read passes the translator one line at
// a time, under mu, in the order that a recording would have.
type conn struct {
	process supervisor.Agent
	lines   *jsonl.Reader // belongs to Next, and before that to handshake
	base    int64         // where lines begins in the agent's output
	tap     func(runnel.Dir, []byte)
	bypass  bool

	ready []event.Event // belongs to Next

	mu       sync.Mutex // guards the following fields, and the order of lines
	tr       *translator
	commands map[string]bool
	requests int
	heard    int64 // of the agent's output, what the translator has been given
	over     bool  // the end was told to tap
}

func newConn(p supervisor.Agent, opt runnel.Options) *conn {
	return &conn{
		process: p, lines: jsonl.NewReader(p.Stdout(), 0), tap: opt.Tap, bypass: opt.AllowBypass, tr: newTranslator(),
	}
}

// handshake sends reqs and returns when all are answered. On failure nothing is
// left running.
func (c *conn) handshake(ctx context.Context, reqs []controlRequest) error {
	stop := context.AfterFunc(ctx, func() { c.process.Stop(context.WithoutCancel(ctx), proc.Now) })
	defer stop()
	err := c.negotiate(reqs)
	if err == nil && stop() {
		_, _ = c.control(controlRequest{Subtype: "get_settings"}) // no one waits for it; an agent that is gone says so to Next
		return nil
	}
	c.process.Stop(context.WithoutCancel(ctx), proc.Now)
	if ctx.Err() != nil {
		return runnel.Fail(runnel.Timeout, "starting Claude Code was given up", ctx.Err(), err)
	}
	return err
}

func (c *conn) negotiate(reqs []controlRequest) error {
	open := make(map[string]string)
	for _, r := range reqs {
		id, err := c.control(r)
		if err != nil {
			return c.startupFault(frame{})
		}
		open[id] = r.Subtype
	}
	var last frame
	for len(open) > 0 {
		line, err := c.lines.Next()
		if _, ok := errors.AsType[*jsonl.TooLongError](err); ok {
			continue
		}
		if err != nil {
			return c.startupFault(last)
		}
		c.ready = append(c.ready, c.translate(line)...)
		f, err := decode(line)
		if err != nil {
			continue
		}
		last = f
		if f.Type != "control_response" || f.Response == nil {
			continue
		}
		what := open[f.Response.RequestID]
		delete(open, f.Response.RequestID)
		if what != "" && f.Response.Subtype != "success" {
			return refused(what)
		}
		if what == "initialize" {
			c.learn(*f.Response)
		}
	}
	return nil
}

func refused(request string) error {
	switch request {
	case "apply_flag_settings":
		return runnel.Fail(runnel.InvalidRequest, "addDirs: Claude Code does not accept them")
	case "mcp_set_servers":
		return runnel.Fail(runnel.InvalidRequest, "mcpServers: Claude Code does not accept them")
	}
	return runnel.Fail(runnel.ProtocolError, "Claude Code does not speak the protocol that we know; update it: "+installCommand)
}

// learn keeps the names of the commands that the agent offers.
func (c *conn) learn(r controlResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = commandNames(r)
}

func commandNames(r controlResponse) map[string]bool {
	names := make(map[string]bool)
	for _, cmd := range decodeLoose[initialized](r.Response).Commands {
		names[cmd.Name] = true
	}
	return names
}

// startupFault says why the agent left before it was ready. What it printed is
// not shown: it may hold anything.
func (c *conn) startupFault(last frame) error {
	c.process.Stop(context.Background(), proc.Now)
	said := c.process.StderrTail()
	for _, e := range last.Errors {
		said += "\n" + e
	}
	cause := errors.New("claude: left before it was ready")
	for _, known := range []struct {
		words string
		code  runnel.Code
		tell  string
	}{
		{"No conversation found", runnel.SessionNotFound, "Claude Code has no such conversation for this directory."},
		{"already in use", runnel.SessionCreateFailed, "The conversation is open in another Claude Code."},
		{"cannot be used with root", runnel.SessionCreateFailed, "Claude Code does not skip permissions for root. Run as another user, or set IS_SANDBOX=1 in a sandbox."},
		{"Please run /login", runnel.AgentNotLoggedIn, "Claude Code is not logged in. Run: " + loginCommand},
		{"Invalid API key", runnel.InvalidAPIKey, "The API key is not valid. Check ANTHROPIC_API_KEY."},
		{"unknown option", runnel.SessionCreateFailed, "This version of Claude Code lacks an option that we need. Update it: " + installCommand},
	} {
		if strings.Contains(said, known.words) {
			return runnel.Fail(known.code, known.tell, cause)
		}
	}
	return runnel.Fail(runnel.SessionCreateFailed, "Claude Code ended before it was ready. Try it in a terminal: claude --version", cause)
}

// translate passes a line of the agent through the translator, and answers
// what has to be answered at once.
func (c *conn) translate(line []byte) []event.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = c.base + c.lines.Offset()
	if c.tap != nil {
		c.tap(runnel.DirOut, line)
	}
	if !jsonl.Valid(line) {
		line = nil // does not decode
	}
	evs, replies := c.tr.printed(line, time.Now())
	for _, r := range replies {
		_ = c.write(r) // a process that cannot be written to is about to end anyway
	}
	return evs
}

// write sends one message; c.mu is held. What it means is the session's to
// record, not ours to report: it did so before it called us.
func (c *conn) write(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return runnel.Fail(runnel.Internal, "a message to the agent could not be made", err)
	}
	message := bytes.TrimRight(buf.Bytes(), "\n")
	line, err := jsonl.Append(nil, message)
	if err != nil {
		return runnel.Fail(runnel.Internal, "a message to the agent could not be made", err)
	}
	if err := c.process.Send(line, c.heard); err != nil {
		if errors.Is(err, proc.ErrOutboxFull) {
			return runnel.Fail(runnel.AgentStalled, "Claude Code does not take its input. Cancel, or end the session.", err)
		}
		return runnel.Fail(runnel.ProcessCrash, "Claude Code has ended. Send again to resume the conversation.", err)
	}
	message = bytes.TrimRight(line, "\n")
	if c.tap != nil {
		c.tap(runnel.DirIn, message)
	}
	c.tr.sent(message, time.Now())
	return nil
}

// control sends a control request and returns its id.
func (c *conn) control(r controlRequest) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	id = "runnel-" + itoa(c.requests)
	return id, c.write(request{"control_request", id, r})
}

// nudge has the agent say something, whatever it is, so that what the translator
// has to tell is told; c.mu is held.
func (c *conn) nudge() error {
	c.requests++
	return c.write(request{"control_request", "runnel-" + itoa(c.requests), controlRequest{Subtype: "mcp_status"}})
}

var tooLong = event.Notice{
	Level: event.LevelWarning, Code: "LINE_TOO_LONG", Message: "The agent printed a message that is too long; it was left out.",
}

// Next implements [runnel.Conn].
func (c *conn) Next(ctx context.Context) (event.Event, error) {
	for len(c.ready) == 0 {
		if err := ctx.Err(); err != nil {
			return event.Event{}, err
		}
		line, err := c.lines.Next()
		switch _, long := errors.AsType[*jsonl.TooLongError](err); {
		case long:
			c.ready = []event.Event{{At: time.Now(), Body: tooLong}}
		case errors.Is(err, io.EOF):
			c.end()
			c.mu.Lock()
			c.ready = c.tr.gone()
			c.mu.Unlock()
			if len(c.ready) == 0 {
				return event.Event{}, io.EOF
			}
		case err != nil:
			return event.Event{}, runnel.Fail(runnel.ProcessCrash, "Claude Code's output broke off", err)
		case c.lines.Torn() && !json.Valid(line): // it died in the middle of a word
		default:
			c.ready = c.translate(line)
		}
	}
	ev := c.ready[0]
	c.ready = c.ready[1:]
	return ev, nil
}

// end tells the recording what the agent wrote beside the protocol.
func (c *conn) end() {
	if c.tap == nil {
		return
	}
	if _, err := c.process.Wait(context.Background()); err != nil {
		select {
		case <-c.process.Done():
		default:
			return // it was left to its supervisor
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	for line := range strings.Lines(c.process.StderrTail()) {
		c.tap(runnel.DirErr, []byte(strings.TrimSuffix(line, "\n")))
	}
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state, ok := c.checkpoint(); ok {
		c.process.Begin(supervisor.Checkpoint{Log: in.After, State: state}, c.heard)
	}
	return c.write(prompt(turn, in, func(name string) bool { return c.commands[name] }))
}

// Interrupt implements [runnel.Conn].
func (c *conn) Interrupt(context.Context) error {
	_, err := c.control(controlRequest{Subtype: "interrupt"})
	return err
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	aside := c.tr.isAside(approval)
	r, err := c.tr.answer(approval, d)
	if err != nil {
		return err
	}
	if err := c.write(r); err != nil || !aside {
		return err
	}
	return c.nudge()
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	_, err := c.control(controlRequest{Subtype: "set_model", Model: model})
	return err
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	native, err := nativeMode(mode, c.bypass)
	if err != nil {
		return err
	}
	if native == "" {
		native = "default"
	}
	_, err = c.control(controlRequest{Subtype: "set_permission_mode", Mode: native})
	return err
}

// Close implements [runnel.Conn]. A turn that runs is interrupted first: then
// the agent ends its tools itself and keeps what it has in its file.
func (c *conn) Close() error {
	c.mu.Lock()
	busy := c.tr.turn != nil || len(c.tr.waiting) > 0
	c.mu.Unlock()
	if busy {
		_, _ = c.control(controlRequest{Subtype: "interrupt"}) // it may be gone already
	}
	return c.process.Stop(context.Background(), proc.Ladder{Drain: drain})
}

// ExitStatus implements [runnel.Exiter].
func (c *conn) ExitStatus() (runnel.ExitStatus, bool) {
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
