// Package providertest is what every provider must do: one suite, run with the
// real agent against a scripted model.
//
// A provider's own test describes its agent in a [Subject] and calls [Run].
// What an agent cannot do is left out of Subject.Prompts, with the reason in
// Subject.Cannot; the suite knows no agent by name.
package providertest

import (
	"context"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Scenario is something the suite wants the agent to do.
type Scenario string

// The scenarios, and what a prompt for each has to bring about.
const (
	Text      Scenario = "text"      // one message that ends with Subject.Said
	Reasoning Scenario = "reasoning" // reasoning, then a message
	Tool      Scenario = "tool"      // a tool call with output that needs no approval, then a message
	Parallel  Scenario = "parallel"  // two or more tool calls open at the same time, then a message
	Image     Scenario = "image"     // a message, about an image that comes with the prompt
	Edit      Scenario = "edit"      // a file edit with its changes, allowed beforehand or by approval
	Approval  Scenario = "approval"  // a tool call that needs an approval, then a message
	LongText  Scenario = "long-text" // a message that goes on until it is interrupted
	LongTool  Scenario = "long-tool" // a tool that runs until it is interrupted
	Failure   Scenario = "failure"   // the model fails so that the turn fails
	Subagent  Scenario = "subagent"  // a subagent that uses a tool and speaks, within the turn
	Plan      Scenario = "plan"      // a plan, then a message
	Question  Scenario = "question"  // one question to the user, then a message
	Behind    Scenario = "behind"    // work that goes on after the turn, asks, and ends with a message as of Said
	Denial    Scenario = "denial"    // none of its own: an approval denied, after which the turn goes on
	Recover   Scenario = "recover"   // after Failure or a crash: a message that ends with Subject.Said
)

// A Subject is a provider with its agent.
type Subject struct {
	// New returns a provider and the options for a fresh, empty environment of
	// its own: directory, home, scripted model.
	New func(t *testing.T) (runnel.Provider, runnel.Options)

	// Prompts holds the prompt that brings each scenario about.
	Prompts map[Scenario]string

	// Cannot says, for each scenario that has no prompt, why the agent cannot
	// do it, with the version that was looked at.
	Cannot map[Scenario]string

	// Lacks is as Cannot, where the agent could and its provider does not.
	Lacks map[Scenario]string

	// Version is that of the agent, and Notes what else those who use it should
	// know of it: both for the page that is made of the results.
	Version string
	Notes   []string

	// SawImage reports whether the model was shown the image of the prompt, after
	// Image. Default: nobody asks.
	SawImage func(t *testing.T) bool

	// TurnsByOrder says that the agent keeps no ids of ours: a turn of its history
	// is that of the same place in the log, and its id another one.
	TurnsByOrder bool

	// OutputsWithCalls says that its history tells each output right after its
	// call, whenever it came.
	OutputsWithCalls bool

	// Said is how the message of Text and Recover ends.
	Said string

	// Processes says that the provider runs its agent as a process.
	Processes bool

	// Differences names what may differ between live and replayed items of a
	// scenario, and why. The value reports whether an item may be left out of
	// the comparison.
	Differences map[string]func(event.Item) bool

	report *report
}

// patience bounds every wait of the suite for a real agent.
const patience = 90 * time.Second

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	for _, sc := range []Scenario{Text, Reasoning, Tool, Parallel, Edit, Image, Approval, LongText, LongTool, Failure, Subagent, Plan, Question, Behind, Recover} {
		if s.Prompts[sc] == "" && s.Cannot[sc] == "" && s.Lacks[sc] == "" {
			t.Errorf("%s: neither a prompt nor a reason why the agent cannot do it", sc)
		}
	}
	s.report = &report{reasons: make(map[string]string)}
	p, _ := s.New(t)
	s.run(t, "Contract", s.contract)
	s.run(t, "Text", s.text)
	s.run(t, "Reasoning", s.reasoning)
	s.run(t, "Tool", s.tool)
	s.run(t, "Parallel", s.parallel)
	s.run(t, "Edit", s.edit)
	s.run(t, "Image", s.image)
	s.run(t, "ApprovalAllowed", s.approvalAllowed)
	s.run(t, "ApprovalDenied", s.approvalDenied)
	s.run(t, "ApprovalDeniedAndStopped", s.approvalStopped)
	s.run(t, "InterruptInText", func(t *testing.T) { s.interrupt(t, LongText) })
	s.run(t, "InterruptInTool", func(t *testing.T) { s.interrupt(t, LongTool) })
	s.run(t, "InterruptInApproval", func(t *testing.T) { s.interrupt(t, Approval) })
	s.run(t, "Failure", s.failure)
	s.run(t, "Subagent", s.subagent)
	s.run(t, "Plan", s.plan)
	s.run(t, "Question", s.question)
	s.run(t, "Behind", s.behind)
	s.run(t, "ResumeAfterKill", s.resumeAfterKill)
	s.run(t, "ResumeAfterClose", s.resumeAfterClose)
	s.run(t, "StuffedPipes", s.stuffedPipes)
	s.run(t, "NothingIsLeft", s.nothingIsLeft)
	s.run(t, "TestReplayEqualsLive", s.replayEqualsLive)
	s.settle(t, p)
}

// live is a session of the subject with what the suite looks at.
type live struct {
	*runnel.Session
	t        *testing.T
	log      *runnel.Memory
	provider runnel.Provider
	opt      runnel.Options
}

// open starts the agent.
func (s Subject) open(t *testing.T) *live {
	t.Helper()
	p, opt := s.New(t)
	return s.openWith(t, p, opt, new(runnel.Memory))
}

func (s Subject) openWith(t *testing.T, p runnel.Provider, opt runnel.Options, log *runnel.Memory) *live {
	t.Helper()
	sess, err := runnel.Open(t.Context(), p, opt, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatalf("open %s: %v", p.Name(), detail(err))
	}
	t.Cleanup(func() { _ = sess.Close() })
	return &live{sess, t, log, p, opt}
}

// prompt returns the prompt of a scenario, or skips the test with the reason.
func (s Subject) prompt(t *testing.T, sc Scenario) string {
	t.Helper()
	p := s.Prompts[sc]
	if p == "" {
		s.skip(t, s.Cannot[sc]+s.Lacks[sc])
	}
	return p
}

func (l *live) send(prompt string) *runnel.Turn {
	l.t.Helper()
	turn, err := l.Send(l.t.Context(), runnel.Text(prompt))
	if err != nil {
		l.t.Fatalf("send: %v", detail(err))
	}
	return turn
}

// watch calls see for each event of a turn until it returns true or the turn
// is over.
func (l *live) watch(turn *runnel.Turn, see func(event.Event) bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for ev, err := range turn.Events(ctx) {
		if err != nil {
			l.t.Fatalf("events: %v\n%s", err, l.dump())
		}
		if see(ev) {
			return
		}
	}
}

func (l *live) wait(turn *runnel.Turn) (runnel.Result, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	res, err := turn.Wait(ctx)
	if ctx.Err() != nil {
		l.t.Fatalf("the turn does not end\n%s", l.dump())
	}
	return res, err
}

// completes waits for a turn that has to end well.
func (l *live) completes(turn *runnel.Turn) runnel.Result {
	l.t.Helper()
	res, err := l.wait(turn)
	if err != nil || res.Status != event.StatusCompleted {
		l.t.Fatalf("the turn ended as %s: %v\n%s", res.Status, detail(err), l.dump())
	}
	CheckLog(l.t, l.log, l.ID())
	return res
}

// items folds a turn's events.
func (l *live) items(turn string) []event.Item {
	l.t.Helper()
	return Items(l.t, l.log, l.ID(), turn)
}

// find returns the first item that matches.
func find(items []event.Item, match func(event.Item) bool) (event.Item, bool) {
	for _, it := range items {
		if match(it) {
			return it, true
		}
	}
	return event.Item{}, false
}

func ofType(typ event.ItemType) func(event.Item) bool {
	return func(it event.Item) bool { return it.Type == typ }
}
