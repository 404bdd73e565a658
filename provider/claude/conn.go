package claude

import (
	"context"
	"errors"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// conn is one conversation with one process.
type conn struct {
	*agentconn.Conn
	tr     *translator // shared with Conn: touched within Do only
	bypass bool
	dir    string
}

// handshake sends reqs and returns when all are answered. On failure nothing is
// left running.
func (c *conn) handshake(ctx context.Context, reqs []controlRequest) error {
	err := c.Handshake(ctx, func(next func() ([]byte, error)) error { return c.negotiate(next, reqs) })
	if err == nil {
		_, _ = c.control(controlRequest{Subtype: "get_settings"}) // no one waits for it; an agent that is gone says so to Next
	}
	return err
}

func (c *conn) negotiate(next func() ([]byte, error), reqs []controlRequest) error {
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
		line, err := next()
		if err != nil {
			return c.startupFault(last)
		}
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

// startupFault says why the agent left before it was ready. What it printed is
// not shown: it may hold anything.
func (c *conn) startupFault(last frame) error {
	said := c.Ended()
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

// control sends a control request and returns its id.
func (c *conn) control(r controlRequest) (id string, err error) {
	err = c.Do(func(send func(any) error) error {
		req := c.tr.request(r)
		id = req.RequestID
		return send(req)
	})
	return id, err
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.Conn.Prompt(in, func() (any, error) {
		return prompt(turn, c.dir, in, func(name string) bool { return c.tr.commands[name] }), nil
	})
}

// Interrupt implements [runnel.Conn].
func (c *conn) Interrupt(context.Context) error {
	_, err := c.control(controlRequest{Subtype: "interrupt"})
	return err
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.Do(func(send func(any) error) error {
		aside := c.tr.isAside(approval)
		r, err := c.tr.answer(approval, d)
		if err != nil {
			return err
		}
		if err := send(r); err != nil || !aside {
			return err
		}
		// The agent has to say something, whatever it is, for what the translator has to tell.
		return send(c.tr.request(controlRequest{Subtype: "mcp_status"}))
	})
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
	_ = c.Do(func(send func(any) error) error {
		if c.tr.turn == nil && len(c.tr.waiting) == 0 {
			return nil
		}
		return send(c.tr.request(controlRequest{Subtype: "interrupt"})) // it may be gone already
	})
	return c.Conn.Close()
}
