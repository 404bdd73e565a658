package claude

import (
	"cmp"
	"context"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// conn is a conversation with one agent process.
type conn struct {
	*agentconn.Conn
	tr     *translator    // shared with Conn; access within Do only
	opt    runnel.Options // options with which the agent was started
	budget string         // see thinkingBudget
}

// handshake sends reqs and waits until the agent has answered all of them. It
// fails if the model of opt lacks the reasoning effort of opt. If it fails, the
// agent is stopped.
func (c *conn) handshake(ctx context.Context, reqs []controlRequest, opt runnel.Options) error {
	err := c.Handshake(ctx, func(next func() ([]byte, error)) error { return c.negotiate(next, reqs, opt) })
	if err == nil {
		// Nothing waits for the answers to these requests: the translator
		// processes them later. If the agent has exited, Next reports that.
		_, _ = c.control(controlRequest{Subtype: "get_settings"})
		if opt.ThinkingDisplay == "" { // a version without this request reports an error, which is ignored
			_, _ = c.control(displayRequest("", c.budget))
		}
	}
	return err
}

// negotiate sends reqs and reads lines until all are answered.
func (c *conn) negotiate(next func() ([]byte, error), reqs []controlRequest, opt runnel.Options) error {
	open := make(map[string]string)
	for _, r := range reqs {
		id, err := c.control(r)
		if err != nil {
			return startupFault(err, c.Ended(), frame{})
		}
		open[id] = r.Subtype
	}
	var last frame
	for len(open) > 0 {
		line, err := next()
		if err != nil {
			return startupFault(err, c.Ended(), last)
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
			if what == showThinking {
				return runnel.Fail(runnel.UnsupportedCapability, "thinkingDisplay: this version of Claude Code does not support it; leave it out, or update Claude Code")
			}
			return refused(what)
		}
		if what != "initialize" {
			continue
		}
		in := translate.DecodeLenient[initialized](f.Response.Response)
		if in.Account.loggedOut() {
			return runnel.Fail(runnel.AgentNotLoggedIn, "Claude Code is not logged in. Run: "+loginCommand+", or use an API key with auth: api-key.")
		}
		if err := in.checkEffort(opt); err != nil {
			return err
		}
	}
	return nil
}

// checkEffort fails with InvalidRequest if the agent lists the model of opt
// without the reasoning effort of opt. Claude Code itself would ignore the
// effort.
func (in initialized) checkEffort(opt runnel.Options) error {
	if opt.Model == "" || opt.ReasoningEffort == "" {
		return nil
	}
	for _, m := range in.Models {
		if m.Value != opt.Model && m.Resolved != opt.Model || slices.Contains(m.Efforts, opt.ReasoningEffort) {
			continue
		}
		return agentconn.NoEffort(opt.Model, opt.ReasoningEffort, m.Efforts)
	}
	return nil
}

// control sends a control request and returns its id.
func (c *conn) control(r controlRequest) (id string, err error) {
	err = c.Do(func(send func(any) error) error {
		req := c.tr.requests.next(r)
		id = req.RequestID
		return send(req)
	})
	return id, err
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.Conn.Prompt(in, func() (any, error) {
		return prompt(turn, c.opt.Dir, in, func(name string) bool { return c.tr.session.commands[name] }), nil
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
		q, _ := c.tr.approvals.Get(approval)
		r, err := c.tr.approvals.answer(approval, d)
		if err != nil {
			return err
		}
		if err := send(r); err != nil || !q.OutOfTurn {
			return err
		}
		// The translator ends the question's turn when it reads the agent's
		// next line. This request makes the agent print one.
		return send(c.tr.requests.next(controlRequest{Subtype: "mcp_status"}))
	})
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	_, err := c.control(controlRequest{Subtype: "set_model", Model: model})
	return err
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	native, err := nativeMode(mode, c.opt.AllowBypass)
	if err != nil {
		return err
	}
	if native == "" {
		native = "default"
	}
	_, err = c.control(controlRequest{Subtype: "set_permission_mode", Mode: native})
	return err
}

// Settings implements [runnel.SettingsReporter]. The agent reports its model in
// the first turn. Until then Settings returns [defaultModel].
func (c *conn) Settings() (set runnel.Settings) {
	_ = c.Do(func(func(any) error) error {
		set.Model = cmp.Or(c.tr.session.model, defaultModel)
		set.PermissionMode = runnel.PermissionMode(c.tr.session.mode)
		return nil
	})
	return set
}

// defaultModel is Claude Code's name for the model that it uses by default.
const defaultModel = "default"

// CheckSettings implements [runnel.SettingsChecker].
func (c *conn) CheckSettings(set runnel.Settings) error {
	_, err := nativeMode(set.PermissionMode, c.opt.AllowBypass)
	return err
}

// Close implements [runnel.Conn]. It first interrupts a running turn, so that
// the agent stops its tools itself and saves the conversation to its file.
func (c *conn) Close() error {
	_ = c.Do(func(send func(any) error) error {
		if c.tr.turns.idle() {
			return nil
		}
		return send(c.tr.requests.next(controlRequest{Subtype: "interrupt"}))
	})
	return c.Conn.Close()
}
