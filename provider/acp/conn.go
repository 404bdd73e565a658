package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// conn is one conversation with one agent process.
type conn struct {
	*agentconn.Conn
	tr     *translator // access within Do only
	bypass bool        // Options.AllowBypass
	dir    string      // Options.Dir
	own    *ownWrites  // of the provider
}

// encode returns a message as a line. If err is not nil, it returns an error
// that wraps err.
func encode(m jsonrpc.Message, err error) (json.RawMessage, error) {
	var line []byte
	if err == nil {
		line, err = jsonrpc.Encode(m, true)
	}
	if err != nil {
		return nil, runnel.Fail(runnel.Internal, "could not encode a message to the agent", err)
	}
	return line, nil
}

// reply adds a message to the replies that are written to the agent at once.
func reply(out *translate.Emitter, m jsonrpc.Message) {
	if line, err := encode(m, nil); err == nil {
		out.Reply(line)
	}
}

// isReady returns ErrStarting if the adopted agent has not completed the
// handshake.
func (c *conn) isReady() error {
	if c.tr.session.id == "" || c.tr.replay != nil || len(c.tr.requests) > 0 {
		return agentconn.ErrStarting
	}
	return nil
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	err := c.Conn.Prompt(in, func() (any, error) {
		if err := c.mayPrompt(); err != nil {
			return nil, err
		}
		content, err := c.tr.session.content(in, c.dir)
		if err != nil {
			return nil, err
		}
		return encode(jsonrpc.NewRequest(jsonrpc.String(promptID+turn), methodPrompt, struct {
			SessionID string `json:"sessionId"`
			Prompt    []any  `json:"prompt"`
		}{c.tr.session.id, content}))
	})
	if err != nil {
		return err
	}
	return c.nameAfter(in)
}

// mayPrompt fails while the agent's settings allow tools without asking, unless
// bypass is allowed. The user's own settings may select such a mode, or the
// agent may change to it by itself.
func (c *conn) mayPrompt() error {
	if option := c.tr.session.q.bypassOption(c.tr.session.settings.config); option != "" && !c.bypass {
		return runnel.Fail(runnel.InvalidRequest, c.tr.session.agent.conn().Name+" would run tools without asking, which is not allowed here. Choose another value of its option: "+text.OneLine(option, 100))
	}
	return nil
}

// Interrupt implements [runnel.Conn]. It also cancels the open approvals, as
// the protocol requires.
func (c *conn) Interrupt(context.Context) error {
	return c.Do(func(send func(any) error) error {
		tn := c.tr.turns.now
		if tn == nil {
			return nil
		}
		if err := c.cancel(send); err != nil {
			return err
		}
		for _, a := range tn.approvals.All() {
			line, err := encode(a.Question.cancelled(), nil)
			if err != nil {
				return err
			}
			if err := send(line); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) cancel(send func(any) error) error {
	line, err := encode(jsonrpc.NewNotification(methodCancel, map[string]any{"sessionId": c.tr.session.id}))
	if err != nil {
		return err
	}
	return send(line)
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.Do(func(send func(any) error) error {
		m, stop, err := c.tr.turns.answer(approval, d)
		if err != nil {
			return err
		}
		line, err := encode(m, nil)
		if err != nil {
			return err
		}
		if err := send(line); err != nil || !stop {
			return err
		}
		return c.cancel(send)
	})
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	return c.applyAll(nil, runnel.Settings{Model: model})
}

// SetReasoningEffort implements [runnel.EffortSetter].
func (c *conn) SetReasoningEffort(_ context.Context, effort string) error {
	return c.applyAll(nil, runnel.Settings{ReasoningEffort: effort})
}

// SetConfig implements [runnel.ConfigSetter].
func (c *conn) SetConfig(_ context.Context, id, value string) error {
	return c.applyAll(nil, runnel.Settings{Config: runnel.Values{id: value}})
}

// Settings implements [runnel.SettingsReporter].
func (c *conn) Settings() (set runnel.Settings) {
	_ = c.Do(func(func(any) error) error {
		s := &c.tr.session.settings
		set = runnel.Settings{PermissionMode: runnel.PermissionMode(s.permissionMode()), Config: make(runnel.Values)}
		for _, o := range s.config {
			set.Config[o.ID] = o.Value
		}
		if o := find(s.config, "model"); o != nil {
			set.Model = o.Value
		}
		if o := find(s.config, "effort"); o != nil {
			set.ReasoningEffort = o.Value
		}
		return nil
	})
	return set
}

// CheckSettings implements [runnel.SettingsChecker].
func (c *conn) CheckSettings(set runnel.Settings) error {
	var mode []setting
	if set.PermissionMode != "" {
		var err error
		if mode, err = c.mode(set.PermissionMode); err != nil {
			return err
		}
	}
	return c.Do(func(func(any) error) error {
		for _, w := range settingRequests(mode, set) {
			if _, _, err := c.tr.session.change(w, c.bypass); err != nil {
				return err
			}
		}
		return nil
	})
}

// mode returns the settings of a permission mode.
func (c *conn) mode(mode runnel.PermissionMode) ([]setting, error) {
	if mode == runnel.ModeBypass && !c.bypass {
		return nil, agentconn.ErrBypass()
	}
	modes, began := c.tr.session.q.startup.modes, c.tr.session.settings.began
	mode = cmp.Or(mode, runnel.ModeDefault)
	switch name, then := c.tr.session.agent.conn().Name, "; end the session, load it again, and change it then"; {
	case began == mode:
		return modes[runnel.ModeDefault], nil
	case began != "":
		return nil, runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("permissionMode: %s cannot change from %q while it runs"+then, name, began))
	case modes[mode] == nil:
		return nil, runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("permissionMode: %s cannot change to %q while it runs"+then, name, mode))
	}
	return modes[mode], nil
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	want, err := c.mode(mode)
	if err != nil {
		return err
	}
	return c.applyAll(want, runnel.Settings{})
}

// applyAll asks the agent to change settings. mode lists the settings of a
// permission mode.
func (c *conn) applyAll(mode []setting, set runnel.Settings) error {
	for _, w := range settingRequests(mode, set) {
		if err := c.apply(w); err != nil {
			return err
		}
	}
	return nil
}

// apply asks the agent to change a setting.
func (c *conn) apply(want settingRequest) error {
	return c.Do(func(send func(any) error) error {
		method, params, err := c.tr.session.change(want, c.bypass)
		if err != nil || method == "" {
			return err
		}
		id, err := c.tr.peer.NextID()
		if err != nil {
			return runnel.Fail(runnel.AgentStalled, c.tr.session.agent.conn().Name+" does not answer. Cancel, or end the session.", err)
		}
		line, err := encode(jsonrpc.NewRequest(id, method, params))
		if err != nil {
			return err
		}
		return send(line)
	})
}

// Close implements [runnel.Conn]. It first interrupts a running turn, so that
// the agent stops its tools and stores the turn.
func (c *conn) Close() error {
	_ = c.Interrupt(context.Background()) // the agent may have ended
	err := c.Conn.Close()
	_ = c.Do(func(func(any) error) error {
		c.own.add(c.tr.session.id, time.Now())
		return nil
	})
	return err
}

// Resumes implements [runnel.Resumer]. It reports whether the agent can resume
// conversations, according to its capabilities.
func (c *conn) Resumes() (can bool) {
	_ = c.Do(func(func(any) error) error {
		can = c.tr.session.caps.Resume || c.tr.session.caps.Load
		return nil
	})
	return can
}

var _ interface {
	runnel.Conn
	runnel.ModelSetter
	runnel.ModeSetter
	runnel.EffortSetter
	runnel.ConfigSetter
	runnel.SettingsChecker
	runnel.SettingsReporter
	runnel.Detacher
	runnel.Exiter
	runnel.Resumer
} = (*conn)(nil)
