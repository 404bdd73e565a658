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

// conn plays one script after the other. Next owns the player; the other
// methods leave their wish in the inbox.
type conn struct {
	script Script
	opt    runnel.Options
	woken  wake.Signal // one token: the inbox is not empty
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards inbox and config
	inbox  []wish
	config []event.ConfigOption // the player's, or what a script named last

	// The rest belongs to Next.
	ready   []event.Event
	player  *player
	greeted bool
	allowed map[string]bool // tools that need no approval any more
}

// wish is one of promptWish, interruptWish, decideWish, configWish, modelWish and
// runnel.PermissionMode.
type wish any

type (
	promptWish struct {
		turn string
		in   runnel.Input
	}
	interruptWish struct{}
	decideWish    struct {
		approval string
		d        runnel.Decision
	}
	configWish struct{ config []event.ConfigOption }
	modelWish  string
)

func newConn(s Script, opt runnel.Options) *conn {
	c := &conn{script: s, opt: opt, woken: wake.New(), closed: make(chan struct{}), allowed: map[string]bool{}}
	if len(s.Steps) == 0 {
		c.config = settings(opt.Config)
	}
	return c
}

func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) error {
	return c.leave(promptWish{turn, in})
}

func (c *conn) Interrupt(context.Context) error { return c.leave(interruptWish{}) }

func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) error {
	return c.leave(decideWish{approval, d})
}

// SetModel implements [runnel.ModelSetter].
func (c *conn) SetModel(_ context.Context, model string) error {
	return c.leave(modelWish(model))
}

// SetPermissionMode implements [runnel.ModeSetter].
func (c *conn) SetPermissionMode(_ context.Context, mode runnel.PermissionMode) error {
	return c.leave(mode)
}

// SetReasoningEffort implements [runnel.EffortSetter].
func (c *conn) SetReasoningEffort(context.Context, string) error { return nil }

// What a conversation has without options.
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
	return c.leave(configWish{config})
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

func (c *conn) leave(w wish) error {
	c.mu.Lock()
	c.inbox = append(c.inbox, w)
	c.mu.Unlock()
	c.woken.Send()
	return nil
}

func (c *conn) take() []wish {
	c.mu.Lock()
	defer c.mu.Unlock()
	ws := c.inbox
	c.inbox = nil
	return ws
}

// Next implements [runnel.Conn].
func (c *conn) Next(ctx context.Context) (event.Event, error) {
	for {
		for _, w := range c.take() {
			if err := c.obey(w); err != nil {
				return event.Event{}, err
			}
		}
		if len(c.ready) > 0 {
			ev := c.ready[0]
			c.ready = c.ready[1:]
			return ev, nil
		}
		wait, more := c.advance()
		if !more && wait == gone {
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

// What advance has to wait for, besides a span of time.
const (
	forWish time.Duration = -1 // a wish
	gone    time.Duration = -2 // nothing: the agent crashed
)

// advance plays the next action. It returns whether there may be more to do at
// once, and if not, what to wait for.
func (c *conn) advance() (wait time.Duration, more bool) {
	p := c.player
	if p == nil || p.asking != "" || p.hanging {
		return forWish, false
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
		return gone, false
	}
	p.hanging = a.hang
	switch {
	case a.ask == nil || c.allows(a.ask.approval):
	case c.opt.PermissionMode == runnel.ModeDontAsk:
		p.queue = append(a.ask.denied("the permission mode dontAsk denies what would be asked"), p.queue[a.ask.skip:]...)
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

// allows reports whether a tool needs no answer, because of the permission mode
// or an earlier one. What is no question of permission always needs one.
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
	case <-c.woken:
		if c.player != nil && d >= 0 {
			c.player.paused = false // pause anew: a wish came in between
		}
	case <-c.closed:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (c *conn) obey(w wish) error {
	switch w := w.(type) {
	case promptWish:
		s := c.script
		if len(s.Steps) == 0 {
			var err error
			if s, err = Find(w.in.Text); err != nil {
				c.ready = append(c.ready, at(w.turn, event.ResponseError{Error: runnel.Safe(err).Fault()}))
				return nil
			}
		}
		c.begin(w.turn, s, w.in)
	case interruptWish:
		if c.player != nil {
			c.finish(event.ResponseDone{Status: event.StatusCancelled})
		}
	case decideWish:
		if c.player != nil && c.player.asking == w.approval {
			c.resolved(w.d)
		}
	case configWish:
		c.ready = append(c.ready, at("", event.SessionUpdated{Config: w.config}))
	case modelWish:
		c.opt.Model = string(w)
	case runnel.PermissionMode:
		c.opt.PermissionMode = w
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
	if !c.greeted {
		c.greeted = true
		id := c.opt.Resume
		if id == "" {
			id = uuid.NewString()
		}
		c.emit(event.SessionUpdated{AgentSessionID: id, ModelID: model, Config: config})
	}
}

// resolved goes on after an answer: the tool runs, or says why it did not.
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
		c.player.usage.OutputTokens += int64(words(b.DeltaContent))
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
