package script

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/wake"
)

// conn plays one script for each prompt. Next owns the player. The other
// methods queue a request in the inbox, and Next applies it.
type conn struct {
	script Script
	opt    runnel.Options
	wake   wake.Signal // set when the inbox is not empty
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards inbox and config
	inbox  []request
	config []event.ConfigOption // the player's settings, or the settings that a script sent last

	// The following fields are used only by Next.
	ready     []event.Event
	player    *player
	announced bool            // the first SessionUpdated was emitted
	allowed   map[string]bool // tools that were allowed for the session
}

// request is a promptRequest, interruptRequest, decideRequest, configRequest,
// modelRequest or runnel.PermissionMode.
type request any

type (
	promptRequest struct {
		turn string
		in   runnel.Input
	}
	interruptRequest struct{}
	decideRequest    struct {
		approval string
		d        runnel.Decision
	}
	configRequest struct{ config []event.ConfigOption }
	modelRequest  string
)

func newConn(s Script, opt runnel.Options) *conn {
	c := &conn{script: s, opt: opt, wake: wake.New(), closed: make(chan struct{}), allowed: map[string]bool{}}
	if len(s.Steps) == 0 {
		c.config = settings(opt.Config)
	}
	return c
}

func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.enqueue(promptRequest{turn, in})
}

func (c *conn) Interrupt(context.Context) error { return c.enqueue(interruptRequest{}) }

func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.enqueue(decideRequest{approval, d})
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	return c.enqueue(modelRequest(model))
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	return c.enqueue(mode)
}

// SetReasoningEffort implements [runnel.EffortSetter].
func (c *conn) SetReasoningEffort(context.Context, string) error { return nil }

// Settings of a conversation without options.
const (
	defaultModel  = "scripted"
	defaultEffort = "medium" // no script depends on it
)

// Settings implements [runnel.SettingsReporter].
func (c *conn) Settings() runnel.Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := runnel.Settings{Model: defaultModel, PermissionMode: runnel.ModeDefault, ReasoningEffort: defaultEffort, Config: make(runnel.Values)}
	for _, o := range c.config {
		set.Config[o.ID] = o.Value
	}
	return set
}

// SetConfig implements [runnel.ConfigSetter].
func (c *conn) SetConfig(_ context.Context, id, value string) error {
	c.mu.Lock()
	config := slices.Clone(c.config)
	i, err := offered(config, id, value)
	if err == nil {
		config[i].Value = value
		c.config = config
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.enqueue(configRequest{config})
}

// CheckSettings implements [runnel.SettingsChecker].
func (c *conn) CheckSettings(set runnel.Settings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, value := range set.Config {
		if _, err := offered(c.config, id, value); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *conn) enqueue(r request) error {
	c.mu.Lock()
	c.inbox = append(c.inbox, r)
	c.mu.Unlock()
	c.wake.Send()
	return nil
}

func (c *conn) drain() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.inbox
	c.inbox = nil
	return requests
}

// Next implements [runnel.Conn].
func (c *conn) Next(ctx context.Context) (event.Event, error) {
	for {
		for _, r := range c.drain() {
			if err := c.apply(r); err != nil {
				return event.Event{}, err
			}
		}
		if len(c.ready) > 0 {
			ev := c.ready[0]
			c.ready = c.ready[1:]
			return ev, nil
		}
		wait, more := c.advance()
		if !more && wait == crashed {
			return event.Event{}, io.EOF
		}
		if more {
			continue
		}
		if err := c.sleep(ctx, wait); err != nil {
			return event.Event{}, err
		}
	}
}

// Results of advance other than a time to wait.
const (
	forRequest time.Duration = -1 // wait for a request
	crashed    time.Duration = -2 // the scripted agent crashed
)

// advance plays the next action. It reports whether the next action can follow
// at once. If not, wait is the time to wait, or forRequest or crashed.
func (c *conn) advance() (wait time.Duration, more bool) {
	p := c.player
	if p == nil || p.asking != "" || p.hanging {
		return forRequest, false
	}
	if len(p.queue) == 0 {
		c.finish(event.ResponseDone{Status: event.StatusCompleted, FinishReason: "end_turn", Usage: &p.usage})
		return 0, true
	}
	a := p.queue[0]
	if !p.paused && a.after > 0 {
		p.paused = true
		return a.after, false
	}
	p.paused, p.queue = false, p.queue[1:]
	if a.crash {
		c.player = nil
		return crashed, false
	}
	p.hanging = a.hang
	switch {
	case a.ask == nil || c.allows(a.ask.approval):
	case c.opt.PermissionMode == runnel.ModeDontAsk:
		p.queue = append(a.ask.denied("the permission mode dontAsk denies everything that needs an approval"), p.queue[a.ask.skip:]...)
	default:
		p.asking, p.asked = a.ask.approval.ID, a.ask
		c.emit(event.ApprovalRequested{Approval: a.ask.approval})
		if a.ask.withdraw {
			c.emit(event.ApprovalResolved{ApprovalID: p.asking, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
			c.resolved(runnel.Decision{Choice: "deny", Reason: "the question was withdrawn"})
		}
	}
	if a.body != nil {
		c.emit(a.body)
		if event.Ends(a.body) {
			c.player = nil
		}
	}
	return 0, true
}

// allows reports whether the permission mode or an earlier decision allows a
// tool. Questions and forms always need an answer.
func (c *conn) allows(a event.Approval) bool {
	if a.Kind != event.ApprovalTool {
		return false
	}
	switch c.opt.PermissionMode {
	case runnel.ModeBypass:
		return true
	case runnel.ModeAcceptEdits:
		return c.allowed[a.ToolName] || len(a.Changes) > 0
	}
	return c.allowed[a.ToolName]
}

func (c *conn) sleep(ctx context.Context, d time.Duration) error {
	var after <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-after:
	case <-c.wake:
		if c.player != nil && d >= 0 {
			c.player.paused = false // a request interrupted the pause, so the pause starts again
		}
	case <-c.closed:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (c *conn) apply(r request) error {
	switch r := r.(type) {
	case promptRequest:
		s := c.script
		if len(s.Steps) == 0 {
			var err error
			if s, err = Find(r.in.Text); err != nil {
				c.ready = append(c.ready, at(r.turn, event.ResponseError{Error: runnel.Safe(err).Fault()}))
				return nil
			}
		}
		c.begin(r.turn, s, r.in)
	case interruptRequest:
		if c.player != nil {
			c.finish(event.ResponseDone{Status: event.StatusCancelled})
		}
	case decideRequest:
		if c.player != nil && c.player.asking == r.approval {
			c.resolved(r.d)
		}
	case configRequest:
		c.ready = append(c.ready, at("", event.SessionUpdated{Config: r.config}))
	case modelRequest:
		c.opt.Model = string(r)
	case runnel.PermissionMode:
		c.opt.PermissionMode = r
	}
	return nil
}

func (c *conn) begin(turn string, s Script, in runnel.Input) {
	model := cmp.Or(c.opt.Model, defaultModel)
	if model == defaultModel {
		model = cmp.Or(s.Model, model)
	}
	c.mu.Lock()
	config := c.config
	c.mu.Unlock()
	c.player = play(turn, s, config)
	c.player.usage.InputTokens = int64(words(in.Text))
	c.emit(event.ResponseStart{ModelID: model})
	if !c.announced {
		c.announced = true
		id := c.opt.Resume
		if id == "" {
			id = uuid.NewString()
		}
		c.emit(event.SessionUpdated{AgentSessionID: id, ModelID: model, Config: config})
	}
}

// resolved continues the script after a decision. If the decision denies the
// tool, the tool's actions are replaced by an output with the reason.
func (c *conn) resolved(d runnel.Decision) {
	p := c.player
	ask := p.asked
	p.asking, p.asked = "", nil
	i := slices.IndexFunc(ask.approval.Choices, func(ch event.Choice) bool { return ch.ID == d.Choice })
	chosen := event.Choice{Kind: event.ChoiceDeny}
	if i >= 0 {
		chosen = ask.approval.Choices[i]
	}
	switch chosen.Kind {
	case event.ChoiceAllowOnce:
		if answer := ask.answer(chosen, d.UpdatedArguments); answer != nil {
			p.queue = append(answer, p.queue[ask.skip:]...)
		}
	case event.ChoiceDeny:
		p.queue = append(ask.denied(d.Reason), p.queue[ask.skip:]...)
	case event.ChoiceDenyStop:
		c.finish(event.ResponseDone{Status: event.StatusCancelled})
	case event.ChoiceAllowSession:
		c.allowed[ask.approval.ToolName] = true
	}
}

func (c *conn) finish(b event.Body) {
	c.emit(b)
	c.player = nil
}

func (c *conn) emit(b event.Body) {
	switch b := b.(type) {
	case event.ItemDelta:
		if !c.player.reported {
			c.player.usage.OutputTokens += int64(words(b.DeltaContent))
		}
	case event.UsageUpdated:
		if b.Usage != nil {
			c.player.usage, c.player.reported = *b.Usage, true
		}
	case event.SessionUpdated:
		if b.Config != nil {
			c.mu.Lock()
			c.config = b.Config
			c.mu.Unlock()
		}
	}
	c.ready = append(c.ready, at(c.player.turn, b))
}

func at(turn string, b event.Body) event.Event {
	return event.Event{At: time.Now(), Turn: turn, Body: b}
}

func digest(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}
