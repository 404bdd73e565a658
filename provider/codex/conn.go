package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// conn is one conversation with one app-server process.
type conn struct {
	*agentconn.Conn
	tr   *translator // shared with Conn; access within Do only
	opt  runnel.Options
	home string // see codexHome

	// The model and the effort that were requested last; access within Do only.
	// A request that sets a mode must repeat both, and the agent may not have
	// confirmed them yet.
	model, effort string
}

// clientInfo identifies Runnel to the agent.
var clientInfo = map[string]string{"name": "runnel", "title": "Runnel", "version": "1"}

// initializeParams returns the parameters of the first request to an
// app-server.
func initializeParams() any {
	return map[string]any{
		"clientInfo":   clientInfo,
		"capabilities": map[string]any{"experimentalApi": true, "optOutNotificationMethods": ignored},
	}
}

// call sends a request and returns its id.
func (c *conn) call(method string, params any) (id jsonrpc.ID, err error) {
	err = c.Do(func(send func(any) error) error {
		var line json.RawMessage
		if id, line, err = c.tr.next(method, params); err != nil {
			return err
		}
		return send(line)
	})
	return id, err
}

// next returns a request whose id is the next free number. The id of the first
// request contains an id of the process. next fails with AgentStalled if the
// agent leaves too many requests unanswered.
func (t *translator) next(method string, params any) (jsonrpc.ID, json.RawMessage, error) {
	id, err := t.peer.NextID()
	if method == methodInitialize {
		id = jsonrpc.String(processPrefix + uuid.NewString())
	}
	if err != nil {
		return id, nil, runnel.Fail(runnel.AgentStalled, "Codex does not answer. Cancel, or end the session.", err)
	}
	line, err := outgoing(jsonrpc.NewRequest(id, method, params))
	return id, line, err
}

// handshake opens the conversation and makes the agent ready for a prompt. On
// failure it stops the process.
func (c *conn) handshake(ctx context.Context, method string, params map[string]any, login login) error {
	return c.Handshake(ctx, func(next func() ([]byte, error)) error { return c.negotiate(next, method, params, login) })
}

func (c *conn) negotiate(next func() ([]byte, error), method string, params map[string]any, login login) error {
	if err := c.ask(next, methodInitialize, initializeParams()); err != nil {
		return err
	}
	ready, err := outgoing(jsonrpc.NewNotification(methodInitialized, nil))
	if err != nil {
		return err
	}
	if err := c.Send(ready); err != nil {
		return c.startupFault(err)
	}
	if err := login.apply(c, next); err != nil {
		return err
	}
	id, err := c.call(method, params)
	var models jsonrpc.ID
	if err == nil {
		models, err = c.call(methodModels, map[string]any{"limit": 100}) // the translator emits the models when the response arrives
	}
	if err != nil {
		return c.startupFault(err)
	}
	listed := false
	watched := func() ([]byte, error) { // detects the response to model/list
		line, err := next()
		m, bad := jsonrpc.Decode(line)
		listed = listed || err == nil && bad == nil && m.Kind() == jsonrpc.Response && m.ID.Same(models)
		return line, err
	}
	opened, err := c.await(watched, method, id)
	if err == nil {
		err = login.checkModel(opened)
	}
	if err != nil {
		return err
	}
	effort := cmp.Or(c.opt.Config[optionEffort], c.opt.ReasoningEffort)
	for effort != "" && !listed {
		if _, err := watched(); err != nil {
			return c.startupFault(err)
		}
	}
	if err := c.checkEffort(effort); err != nil {
		return err
	}
	return c.begin(next)
}

// begin sets what the request that opens a conversation cannot set: plan mode,
// and that the agent runs in a sandbox of Runnel.
func (c *conn) begin(next func() ([]byte, error)) error {
	m, err := modeOf(c.opt.PermissionMode, c.opt.AllowBypass)
	if err != nil || !m.plan && m.enclosed(c.opt.Sandbox) == m {
		return err
	}
	params := c.modeParams(m)
	if own := c.opt.Config[optionApproval]; own != "" && !(m.plan && c.opt.Sandbox.IsOn()) { // there, plan mode itself is what asks
		params["approvalPolicy"] = own
	}
	return c.ask(next, methodSettings, params)
}

// checkEffort fails with InvalidRequest if the agent lists the conversation's
// model and does not list the effort for it. The user's own models are not
// listed; for these, every effort passes.
func (c *conn) checkEffort(effort string) (err error) {
	_ = c.Do(func(func(any) error) error {
		model := c.tr.config.Model
		for _, e := range c.tr.config.Models {
			var has []string
			for _, f := range e.Efforts {
				has = append(has, f.Effort)
			}
			if effort != "" && e.Model == model && !slices.Contains(has, effort) {
				err = agentconn.NoEffort(model, effort, has)
			}
		}
		return nil
	})
	return err
}

// ask sends a request and waits for its response.
func (c *conn) ask(next func() ([]byte, error), method string, params any) error {
	_, err := c.requestResult(next, method, params)
	return err
}

// requestResult sends a request, waits for its response and returns the result.
func (c *conn) requestResult(next func() ([]byte, error), method string, params any) (json.RawMessage, error) {
	id, err := c.call(method, params)
	if err != nil {
		return nil, c.startupFault(err)
	}
	return c.await(next, method, id)
}

// await reads lines until the response to request id, and returns its result.
func (c *conn) await(next func() ([]byte, error), method string, id jsonrpc.ID) (json.RawMessage, error) {
	for {
		line, err := next()
		if err != nil {
			return nil, c.startupFault(err)
		}
		m, err := jsonrpc.Decode(line)
		if err != nil || m.Kind() != jsonrpc.Response || !m.ID.Same(id) {
			continue
		}
		fatal := ""
		_ = c.Do(func(func(any) error) error { fatal = c.tr.warnings.fatal; return nil })
		if fatal != "" {
			return nil, runnel.Fail(runnel.SessionCreateFailed, "Codex's configuration is not valid, and Codex would start without it: see "+oneLine(fatal, 500)+".")
		}
		if m.Error != nil {
			return nil, c.refusal(method, m.Error)
		}
		return m.Result, nil
	}
}

// refusal returns the error for a request of the handshake that the agent
// rejected with e.
func (c *conn) refusal(method string, e *jsonrpc.Error) error {
	switch {
	case method == methodLogin:
		return runnel.Fail(runnel.InvalidAPIKey, "Codex rejected the API key. Check "+apiKey.Variables[0]+".", e)
	case strings.Contains(e.Message, "already has an active writer"):
		return runnel.Fail(runnel.SessionCreateFailed, "The conversation is open in "+writer(c.home, c.opt.Resume)+". Close it there first.", e)
	case method != methodStart && isMissing(e):
		return runnel.Fail(runnel.SessionNotFound, "Codex has no such conversation.", e)
	case strings.Contains(e.Message, "failed to load configuration"):
		return runnel.Fail(runnel.SessionCreateFailed, "Codex's configuration is not valid, or Codex does not support an option. Try it in a terminal: codex", e)
	case method == methodInitialize:
		return runnel.Fail(runnel.ProtocolError, "Codex rejected Runnel's initialize request. Update Codex: "+installCommand, e)
	}
	return runnel.Fail(runnel.SessionCreateFailed, "Codex did not start the conversation. Try it in a terminal: codex", e)
}

// startupFault stops the process and returns the error for an agent that exited
// before it was ready. err is why no more lines can be read or written. The
// error does not quote standard error, which may contain secrets.
func (c *conn) startupFault(err error) error {
	end := c.Ended()
	cause := fmt.Errorf("codex: exited before it was ready: %w", errors.Join(err, end.Err))
	for _, known := range []struct{ words, message string }{
		{"CODEX_HOME", "Codex's folder is missing: see CODEX_HOME."},
		{"no longer supported", "A setting in Codex's configuration is no longer supported. Try it in a terminal: codex"},
		{"config.toml", "Codex's configuration is not valid. Try it in a terminal: codex"},
		{"unrecognized subcommand", "This version of Codex has no app-server. Update it: " + installCommand},
	} {
		if strings.Contains(end.Stderr, known.words) {
			return runnel.Fail(runnel.SessionCreateFailed, known.message, cause)
		}
	}
	return runnel.Fail(runnel.SessionCreateFailed, end.Says("Codex")+". Try it in a terminal: "+product.Try, cause)
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.Conn.Prompt(in, func() (any, error) {
		return outgoing(jsonrpc.NewRequest(jsonrpc.String(turnPrefix+turn), methodTurn, prompt(c.tr.thread, turn, in)))
	})
}

// Interrupt implements [runnel.Conn].
func (c *conn) Interrupt(context.Context) error {
	return c.Do(func(send func(any) error) error {
		lines, err := c.tr.interruptions()
		for _, l := range lines {
			err = errors.Join(err, send(l))
		}
		return err
	})
}

// interruptions returns the messages that stop all running work. They deny each
// out-of-turn question, so that the subagent that asked it stops.
func (t *translator) interruptions() (out []any, err error) {
	for _, q := range t.questions.All() {
		if !q.OutOfTurn {
			continue
		}
		line, err := outgoing(q.Question.denial())
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	line, err := t.interruption()
	if line != nil {
		out = append(out, line)
	}
	return out, err
}

// interruption returns the request that interrupts the running turn, or the
// turn that is about to begin. It returns nil if there is neither.
func (t *translator) interruption() (json.RawMessage, error) {
	if tn := t.turns.current(); tn != nil {
		return outgoing(tn.interrupt(t.thread))
	}
	native, ok := t.turns.starting()
	if !ok {
		return nil, nil
	}
	// The interrupt has no effect yet; the translator repeats it once the turn
	// runs.
	_, line, err := t.next(methodInterrupt, map[string]string{"threadId": t.thread, "turnId": native})
	return line, err
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.Do(func(send func(any) error) error {
		lines, err := c.tr.answer(approval, d)
		for _, l := range lines {
			err = errors.Join(err, send(l))
		}
		return err
	})
}

// set changes settings of the live conversation. They apply from the next turn
// on.
func (c *conn) set(params map[string]any) error {
	return c.Do(func(send func(any) error) error {
		params["threadId"] = c.tr.thread
		if model, ok := params["model"].(string); ok {
			c.model = model
		}
		if effort, ok := params["effort"].(string); ok {
			c.effort = effort
		}
		_, line, err := c.tr.next(methodSettings, params)
		if err != nil {
			return err
		}
		return send(line)
	})
}

// Settings implements [runnel.SettingsReporter].
func (c *conn) Settings() (set runnel.Settings) {
	_ = c.Do(func(func(any) error) error {
		s := &c.tr.config
		set = runnel.Settings{Model: s.Model, PermissionMode: runnel.PermissionMode(s.Mode), Config: make(runnel.Values)}
		for _, o := range s.options() {
			set.Config[o.ID] = o.Value
		}
		set.ReasoningEffort = set.Config[optionEffort]
		return nil
	})
	return set
}

// CheckSettings implements [runnel.SettingsChecker].
func (c *conn) CheckSettings(set runnel.Settings) error {
	_, err := modeOf(set.PermissionMode, c.opt.AllowBypass)
	if err = firstError(err, check("model", set.Model), check("reasoningEffort", set.ReasoningEffort)); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(set.Config)) {
		if err := checkOption(id, set.Config[id], c.opt.AllowBypass); err != nil {
			return err
		}
	}
	return nil
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	if err := check("model", model); err != nil {
		return err
	}
	return c.set(map[string]any{"model": model})
}

// SetReasoningEffort implements [runnel.EffortSetter].
func (c *conn) SetReasoningEffort(_ context.Context, effort string) error {
	if err := check("reasoningEffort", effort); err != nil {
		return err
	}
	return c.set(map[string]any{"effort": effort})
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, word runnel.PermissionMode) error {
	m, err := modeOf(word, c.opt.AllowBypass)
	if err != nil {
		return err
	}
	return c.Do(func(send func(any) error) error {
		c.tr.config.modes++
		name := modePrefix + string(word) + ":" + strconv.Itoa(c.tr.config.modes)
		line, err := outgoing(jsonrpc.NewRequest(jsonrpc.String(name), methodSettings, c.modeParamsLocked(m)))
		if err != nil {
			return err
		}
		return send(line)
	})
}

func (c *conn) modeParams(m mode) (p map[string]any) {
	_ = c.Do(func(func(any) error) error { p = c.modeParamsLocked(m); return nil })
	return p
}

// modeParamsLocked returns the parameters that set a mode in a live
// conversation. The caller must be within Do.
func (c *conn) modeParamsLocked(m mode) map[string]any {
	collaboration := "default"
	if m.plan {
		collaboration = "plan"
	}
	var effort any
	if e := cmp.Or(c.effort, c.tr.config.Effort); e != "" {
		effort = e
	}
	m = m.enclosed(c.opt.Sandbox)
	return map[string]any{
		"threadId": c.tr.thread, "approvalPolicy": m.approval, "sandboxPolicy": policy(m.sandbox, c.opt.AddDirs),
		"collaborationMode": map[string]any{"mode": collaboration, "settings": map[string]any{
			"model": cmp.Or(c.model, c.tr.config.Model), "reasoning_effort": effort, "developer_instructions": nil,
		}},
	}
}

// SetConfig implements [runnel.ConfigSetter].
func (c *conn) SetConfig(_ context.Context, id, value string) error {
	if err := checkOption(id, value, c.opt.AllowBypass); err != nil {
		return err
	}
	if id == optionSandbox && c.opt.Sandbox.IsOn() {
		return errTwoSandboxes(c.opt.Sandbox)
	}
	switch id {
	case optionModel:
		return c.set(map[string]any{"model": value})
	case optionEffort:
		return c.set(map[string]any{"effort": value})
	case optionApproval:
		return c.set(map[string]any{"approvalPolicy": value})
	}
	return c.set(map[string]any{"sandboxPolicy": policy(value, c.opt.AddDirs)})
}
