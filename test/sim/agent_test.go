package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A provider starts agents for one incarnation.
type provider struct{ inc *incarnation }

func (provider) Name() string { return "sim" }

// Open implements [runnel.Provider].
func (p provider) Open(ctx context.Context, _ runnel.Options) (runnel.Conn, error) {
	w := p.inc.w
	select {
	case <-time.After(w.span(20 * time.Millisecond)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.inc.tainted() || w.chance(30) {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "the agent does not start")
	}
	a := newAgent(w)
	if !p.inc.reach(func() { w.machine(a) }) {
		return nil, io.ErrClosedPipe
	}
	w.work.Go(a.run)
	return &conn{inc: p.inc, a: a, closed: make(chan struct{})}, nil
}

// Adopt implements [runnel.Adopter].
func (p provider) Adopt(context.Context, runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	a := p.inc.w.running()
	if a == nil || !a.take() {
		return nil, runnel.Backlog{}, runnel.Fail(runnel.ProcessCrash, "there is no agent")
	}
	p.inc.w.count("agent adopted")
	a.mu.Lock()
	defer a.mu.Unlock()
	back := runnel.Backlog{After: a.after, Events: slices.Clone(a.said[a.began:]), Prompts: slices.Clone(a.given)}
	if a.waiting != "" {
		back.Waiting = []string{a.waiting}
	}
	return &conn{inc: p.inc, a: a, pos: len(a.said), closed: make(chan struct{})}, back, nil
}

// A conn connects one incarnation to an agent. Once the incarnation is dead,
// the methods of the conn have no effect.
type conn struct {
	inc    *incarnation
	a      *agent
	pos    int // used by Next only
	once   sync.Once
	closed chan struct{}
}

func errGone() error { return runnel.Fail(runnel.ProcessCrash, "the agent has gone") }

// Next implements [runnel.Conn].
func (c *conn) Next(ctx context.Context) (event.Event, error) {
	for {
		c.a.mu.Lock()
		more, ready := c.a.more, c.pos < len(c.a.said)
		if ready {
			ev := c.a.said[c.pos]
			c.pos++
			c.a.mu.Unlock()
			return ev, nil
		}
		c.a.mu.Unlock()
		select {
		case <-more:
		case <-c.a.dead:
			c.a.mu.Lock()
			ready := c.pos < len(c.a.said)
			c.a.mu.Unlock()
			if !ready {
				return event.Event{}, io.EOF
			}
		case <-c.closed:
			return event.Event{}, io.EOF
		case <-c.inc.killed:
			return event.Event{}, io.EOF
		case <-ctx.Done():
			return event.Event{}, ctx.Err()
		}
	}
}

// Prompt implements [runnel.Conn].
func (c *conn) Prompt(_ context.Context, turn string, in runnel.Input) (err error) {
	c.inc.reach(func() {
		w := c.inc.w
		w.effect("prompt "+turn, func(ev event.Event) bool {
			d, ok := ev.Body.(event.ItemDone)
			return ok && d.ItemID == runnel.UserItemID(turn)
		})
		err = c.a.deliver(wish{prompt: turn, after: in.After, text: in.Text})
	})
	return err
}

// Interrupt implements [runnel.Conn].
func (c *conn) Interrupt(context.Context) (err error) {
	c.inc.reach(func() { err = c.a.deliver(wish{interrupt: true}) })
	return err
}

// Decide implements [runnel.Conn].
func (c *conn) Decide(_ context.Context, approval string, d runnel.Decision) (err error) {
	c.inc.reach(func() {
		w := c.inc.w
		w.effect("decision "+approval, func(ev event.Event) bool {
			b, ok := ev.Body.(event.ApprovalResolved)
			return ok && b.ApprovalID == approval && b.Choice == d.Choice
		})
		err = c.a.deliver(wish{decide: approval, choice: d.Choice})
	})
	return err
}

// Close implements [runnel.Conn].
func (c *conn) Close() error {
	c.once.Do(func() {
		if c.inc.reach(func() {}) {
			time.Sleep(c.inc.w.span(5 * time.Millisecond))
			c.inc.reach(c.a.kill)
		}
		close(c.closed)
	})
	return nil
}

// Detach implements [runnel.Detacher].
func (c *conn) Detach() bool {
	return c.inc.reach(func() {
		c.a.disconnect()
		c.once.Do(func() { close(c.closed) })
	})
}

// A wish is a message to an agent: a prompt, an interrupt or a decision.
type wish struct {
	prompt    string // id of the prompt's turn
	after     int64
	text      string
	interrupt bool
	decide    string // id of the decided approval
	choice    string
}

// An agent does random work with random delays, and sometimes breaks the rules.
// One goroutine per agent runs run.
type agent struct {
	w      *world
	rng    *rand.Rand // used by run only
	wishes chan wish
	dead   chan struct{}
	once   sync.Once

	mu      sync.Mutex // guards the rest
	said    []event.Event
	more    chan struct{} // closed and replaced when said grows
	began   int           // index in said at which the last turn begins
	after   int64         // log position before that turn; -1 before the first turn
	given   []string      // turns of the received prompts
	waiting string        // the approval that the agent waits for
	left    bool          // no process is connected, so the agent can be adopted

	turn    string // used by run only, like the fields below
	ordinal int
	greeted bool
}

func newAgent(w *world) *agent {
	return &agent{
		w: w, rng: w.source(), wishes: make(chan wish, 64), dead: make(chan struct{}), more: make(chan struct{}), after: -1,
	}
}

func (a *agent) kill() { a.once.Do(func() { close(a.dead) }) }

func (a *agent) alive() bool {
	select {
	case <-a.dead:
		return false
	default:
		return true
	}
}

// disconnect makes the agent available for adoption. take adopts it and reports
// whether it was available.
func (a *agent) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
}

func (a *agent) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.left
	a.left = false
	return left
}

// deliver sends a wish to the agent. It fails if the agent is dead.
func (a *agent) deliver(w wish) error {
	if !a.alive() {
		return errGone()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case w.prompt != "":
		a.began, a.after = len(a.said), w.after
		a.given = append(a.given, w.prompt)
	case w.decide == a.waiting:
		a.waiting = ""
	}
	a.wishes <- w
	return nil
}

// run plays one turn after the other.
func (a *agent) run() {
	for {
		select {
		case w := <-a.wishes:
			if w.prompt != "" && !a.play(w.prompt) {
				return
			}
		case <-a.dead:
			return
		}
	}
}

func (a *agent) chance(percent int) bool { return a.rng.IntN(100) < percent }

// emit emits events unless the agent is dead.
func (a *agent) emit(bodies ...event.Body) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.alive() {
		return
	}
	for _, b := range bodies {
		a.said = append(a.said, event.Event{At: time.Now(), Turn: a.turn, Body: b})
	}
	close(a.more)
	a.more = make(chan struct{})
}

// outcome is how a pause or an activity of the agent ended.
type outcome int

const (
	goOn outcome = iota
	interrupted
	died
)

// pause waits for a random time, or until an interrupt or the agent's death. It
// drops decisions, which come too late.
func (a *agent) pause(mean time.Duration) outcome {
	t := time.NewTimer(time.Duration(a.rng.ExpFloat64() * float64(mean)))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return goOn
		case w := <-a.wishes:
			if w.interrupt {
				return interrupted
			}
		case <-a.dead:
			return died
		}
	}
}

// play plays one turn and reports whether the agent is still alive.
func (a *agent) play(turn string) bool {
	a.turn, a.ordinal = turn, 0
	a.noise()
	if a.pause(10*time.Millisecond) == died {
		return false
	}
	a.emit(event.ResponseStart{ModelID: "m"})
	if !a.greeted {
		a.greeted = true
		a.emit(event.SessionUpdated{AgentSessionID: "agent-1", ModelID: "m"})
	}
	for range 1 + a.rng.IntN(4) {
		a.noise()
		act := a.tool
		if a.chance(45) {
			act = a.speak
		}
		how := act()
		if a.chance(3) {
			a.kill() // the agent crashes
			return false
		}
		switch how {
		case died:
			return false
		case interrupted:
			return a.stop()
		}
	}
	if a.chance(4) { // the agent hangs
		if how := a.pause(time.Hour); how == died {
			return false
		} else if how == interrupted {
			return a.stop()
		}
	}
	a.end(event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{OutputTokens: int64(a.ordinal)}})
	return true
}

// stop handles an interrupt: it ignores it, or ends the turn as completed or
// cancelled. It reports whether the agent is still alive.
func (a *agent) stop() bool {
	switch {
	case a.chance(15): // ignores the interrupt
		select {
		case <-a.dead:
		case <-time.After(time.Hour):
		}
		return a.alive()
	case a.chance(20):
		a.end(event.ResponseDone{Status: event.StatusCompleted})
	default:
		a.end(event.ResponseDone{Status: event.StatusCancelled})
	}
	return true
}

// end ends the turn with b or, sometimes, with an error. Sometimes it ends the
// turn twice.
func (a *agent) end(b event.Body) {
	if a.chance(10) {
		b = event.ResponseError{Error: event.Fault{Code: "AGENT_ERROR", Message: "no more"}}
	}
	a.emit(b)
	if a.chance(25) {
		a.emit(event.Notice{Level: event.LevelInfo, Code: "LATE", Message: "late"}, event.ResponseDone{Status: event.StatusCompleted})
	}
}

// noise sometimes emits an event that the core has to drop or to tolerate.
func (a *agent) noise() {
	if !a.chance(10) {
		return
	}
	id := fmt.Sprintf("%s:%d:0", a.turn, a.ordinal)
	a.emit([]event.Body{
		event.ItemDelta{ItemID: "no such item", DeltaContent: "x"},
		event.ItemDelta{ItemID: id, DeltaContent: "late"},
		event.ItemStart{ItemID: id, ItemType: event.TypeMessage},
		event.ItemDone{ItemID: id, FinalItem: event.Message{Content: "again", Origin: event.OriginAgent}},
		event.Notice{Level: event.LevelInfo, Code: "NOISE", Message: "noise"},
		event.ApprovalResolved{ApprovalID: "no such approval", Choice: "allow", By: event.ByAgent},
		event.ItemStart{ItemID: "elsewhere:1:0", ItemType: event.TypeMessage},
	}[a.rng.IntN(7)])
}

func (a *agent) next() string {
	a.ordinal++
	return fmt.Sprintf("%s:%d:0", a.turn, a.ordinal)
}

// secret must never appear in the log.
const secret = "correct-horse-17"

// speak emits a message in deltas, sometimes very many at once.
func (a *agent) speak() outcome {
	id := a.next()
	a.emit(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
	text := ""
	n, mean := a.rng.IntN(8), 15*time.Millisecond
	if a.chance(2) {
		n, mean = 700, 0
	}
	for i := range n {
		if mean > 0 {
			if how := a.pause(mean); how != goOn {
				return how
			}
		}
		word := fmt.Sprintf("%d.%d ", a.ordinal, i)
		switch { // some deltas have the first or the second part of the secret
		case a.chance(85):
		case a.chance(50):
			word += secret[:6]
		default:
			word = secret[6:]
		}
		text += word
		a.emit(event.ItemDelta{ItemID: id, DeltaContent: word})
	}
	if a.chance(3) { // the agent forgets to finish the message
		a.ordinal++
		return goOn
	}
	a.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: event.OriginAgent}})
	return goOn
}

var choices = []event.Choice{
	{ID: "allow", Kind: event.ChoiceAllowOnce, Label: "Allow"},
	{ID: "deny", Kind: event.ChoiceDeny, Label: "Deny"},
	{ID: "stop", Kind: event.ChoiceDenyStop, Label: "Stop"},
}

// tool calls a tool, often after asking for approval.
func (a *agent) tool() outcome {
	id := a.next()
	call := "call-" + id
	args := json.RawMessage(fmt.Sprintf(`{"n":%d}`, a.ordinal))
	a.emit(event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCall, CallID: call, Name: "Tool"},
		event.ItemDelta{ItemID: id, DeltaContent: string(args)},
		event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{Name: "Tool", CallID: call, Arguments: args}})
	answer := "allow"
	if a.chance(70) {
		var how outcome
		if answer, how = a.ask(id, call, args); how != goOn {
			return how
		}
	}
	if how := a.pause(20 * time.Millisecond); how != goOn {
		return how
	}
	a.emit(event.ItemStart{ItemID: id + ":output", ItemType: event.TypeFunctionCallOutput, CallID: call},
		event.ItemDone{ItemID: id + ":output", FinalItem: event.FunctionCallOutput{CallID: call, Output: answer, IsError: answer != "allow"}})
	return goOn
}

// ask requests an approval and waits for the decision. It withdraws the
// approval after an hour, or sometimes after a short random time.
func (a *agent) ask(id, call string, args json.RawMessage) (string, outcome) {
	approval := "ask-" + id
	a.mu.Lock()
	a.waiting = approval
	a.mu.Unlock()
	a.emit(event.ApprovalRequested{Approval: event.Approval{
		ID: approval, ItemID: id, CallID: call, Kind: event.ApprovalTool, Title: "Tool?", ToolName: "Tool",
		Arguments: args, ArgumentsDigest: "digest-" + id, Choices: choices,
	}})
	timeout := time.Hour
	if a.chance(10) {
		timeout = time.Duration(a.rng.ExpFloat64() * float64(50*time.Millisecond))
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		select {
		case w := <-a.wishes:
			switch {
			case w.interrupt:
				a.forget()
				return "", interrupted
			case w.decide == approval:
				if w.choice == "stop" {
					return "", interrupted
				}
				return w.choice, goOn
			}
		case <-t.C:
			a.forget()
			a.emit(event.ApprovalResolved{ApprovalID: approval, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
			return "withdrawn", goOn
		case <-a.dead:
			return "", died
		}
	}
}

func (a *agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = ""
}
