// Package providertest is what every provider must do: one suite, run with the
// real agent against a scripted model.
//
// A provider's own test describes its agent in a [Subject] and calls [Run].
// What an agent cannot do is left out of Subject.Prompts, with the reason in
// Subject.Cannot; the suite knows no agent by name.
//
// # The suite's contract
//
// Run runs every case with every agent. The results are compared with
// testdata/conformance, from which docs/agents.md is made: the suite fails if
// a result, a reason, a capability or a version changes.
//
// One agent process serves several cases. Scenarios that complete share one
// conversation; TestReplayEqualsLive then compares that conversation with the
// agent's own history. Cases that deny, interrupt, close and resume share
// another. A scenario with an entry in Subject.Needs has a conversation of its
// own. A case starts a process of its own only where it kills, freezes or
// counts processes, or where work outlives the turn. After a failed case the
// next one starts a new agent. Each case also runs alone (-run).
//
// Cases run one after another: some signal or count every process below the
// test's own. They wait for events and for files, never for a time. Timeouts
// only turn a hanging agent into a failure.
//
// TestReplayEqualsLive compares items, ids included. It leaves out times,
// positions in the log and native data, and normalises one more thing: the
// outputs of calls that ran in parallel are compared as a set, because an
// agent reports them in the order in which they ended and may store them in
// another one. An agent that differs further says so in Subject.TurnsByOrder,
// Subject.OutputsWithCalls or Subject.Differences, with the reason.
package providertest

import (
	"context"
	"strings"
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
	Parallel  Scenario = "parallel"  // two tool calls that are open until the file "both" exists, then a message
	Image     Scenario = "image"     // a message, about an image that comes with the prompt
	Edit      Scenario = "edit"      // a file edit with its changes, allowed beforehand or by approval
	Approval  Scenario = "approval"  // a tool call that needs an approval, then a message
	LongText  Scenario = "long-text" // a message that goes on until it is interrupted
	LongTool  Scenario = "long-tool" // a tool that runs until it is interrupted
	Failure   Scenario = "failure"   // the model fails so that the turn fails
	Subagent  Scenario = "subagent"  // a subagent that uses a tool and speaks, within the turn
	Plan      Scenario = "plan"      // a plan, then a message
	Question  Scenario = "question"  // one question to the user, then a message
	Behind    Scenario = "behind"    // work that asks, goes on after the turn until the file "go" exists, and ends with a message as of Said
	Denial    Scenario = "denial"    // none of its own: an approval denied, after which the turn goes on
	Recover   Scenario = "recover"   // after Failure or a crash: a message that ends with Subject.Said
)

// Dir stands in a prompt for the directory of the environment, for agents that
// take absolute paths only.
const Dir = "{{dir}}"

// A Subject is a provider with its agent.
type Subject struct {
	// New returns a provider and the options for a fresh, empty environment of
	// its own: directory, home, scripted model. The environment lasts until t
	// ends.
	New func(t *testing.T) (runnel.Provider, runnel.Options)

	// Needs changes the options for the scenarios that an agent can only do with
	// others: another model, another mode.
	Needs map[Scenario]func(*runnel.Options)

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
	// Image, in the environment that New made with these options. Default: nobody
	// asks.
	SawImage func(opt runnel.Options) bool

	// Told reports whether the model was told something, in the environment that
	// New made with these options. Default: nobody asks.
	Told func(opt runnel.Options, what string) bool

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

// patience bounds every wait of the suite for a real agent. It only turns an
// agent that hangs into a failure, so it is long enough for a busy machine.
const patience = 4 * time.Minute

// order is the order of the results.
var order = []string{
	"Contract", "Text", "Reasoning", "Tool", "Parallel", "Edit", "Image", "AttachmentAlone", "AttachmentWithBlankText", "AttachmentRejected", "PDF", "RejectionReplayed", "ApprovalAllowed", "ApprovalDenied", "ApprovalDeniedAndStopped",
	"InterruptInText", "InterruptInTool", "InterruptInApproval", "Failure", "Subagent", "Plan", "Question", "Behind",
	"ResumeAfterKill", "ResumeAfterClose", "StuffedPipes", "NothingIsLeft", "ReplayEqualsLive",
}

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

	completed := s.conversations(t)
	shared := func(sc Scenario, test func(*testing.T, *conversation)) func(*testing.T) {
		return func(t *testing.T) { test(t, completed[sc]) }
	}
	s.run(t, "Text", shared(Text, s.text))
	s.run(t, "Reasoning", shared(Reasoning, s.reasoning))
	s.run(t, "Tool", shared(Tool, s.tool))
	s.run(t, "Parallel", shared(Parallel, s.parallel))
	s.run(t, "Edit", shared(Edit, s.edit))
	s.run(t, "ApprovalAllowed", shared(Approval, s.approvalAllowed))
	s.run(t, "Subagent", shared(Subagent, s.subagent))
	s.run(t, "Plan", shared(Plan, s.plan))
	s.run(t, "Question", shared(Question, s.question))
	s.run(t, "Failure", shared(Failure, s.failure))
	s.run(t, "TestReplayEqualsLive", func(t *testing.T) { s.replayEqualsLive(t, completed) })
	for _, c := range completed {
		c.close()
	}

	files := s.conversation(t, s.Needs[Image])
	attached := func(test func(*testing.T, *conversation)) func(*testing.T) {
		return func(t *testing.T) { test(t, files) }
	}
	s.run(t, "AttachmentAlone", attached(s.attachmentAlone))
	s.run(t, "AttachmentWithBlankText", attached(s.attachmentWithBlankText))
	s.run(t, "AttachmentRejected", attached(s.attachmentRejected))
	s.run(t, "PDF", attached(s.pdf))
	s.run(t, "RejectionReplayed", attached(s.rejectionReplayed))
	files.close()

	c := s.conversation(t, nil)
	cut := func(test func(*testing.T, *conversation)) func(*testing.T) {
		return func(t *testing.T) { test(t, c) }
	}
	s.run(t, "Image", cut(s.image))
	s.run(t, "ApprovalDenied", cut(s.approvalDenied))
	s.run(t, "ApprovalDeniedAndStopped", cut(s.approvalStopped))
	s.run(t, "InterruptInText", cut(func(t *testing.T, c *conversation) { s.interrupt(t, c, LongText) }))
	s.run(t, "InterruptInTool", cut(func(t *testing.T, c *conversation) { s.interrupt(t, c, LongTool) }))
	s.run(t, "InterruptInApproval", cut(func(t *testing.T, c *conversation) { s.interrupt(t, c, Approval) }))
	s.run(t, "ResumeAfterClose", cut(s.resumeAfterClose))
	s.run(t, "NothingIsLeft", cut(s.nothingIsLeft))
	c.close()

	s.run(t, "Behind", s.behind)
	s.run(t, "ResumeAfterKill", s.resumeAfterKill)
	s.run(t, "StuffedPipes", s.stuffedPipes)
	s.settle(t, p)
}

// live is a session of the subject with what the suite looks at.
type live struct {
	*runnel.Session
	t        *testing.T
	log      *runnel.Memory
	provider runnel.Provider
	opt      runnel.Options
	turns    map[Scenario][]string // that were played, by their ids; shared by the cases of a conversation
}

// open starts an agent for a scenario in an environment of its own.
func (s Subject) open(t *testing.T, sc Scenario, cfg runnel.Config) *live {
	t.Helper()
	p, opt := s.New(t)
	if needs := s.Needs[sc]; needs != nil {
		needs(&opt)
	}
	l := start(t, p, opt, cfg)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// start starts an agent. The caller closes the session.
func start(t *testing.T, p runnel.Provider, opt runnel.Options, cfg runnel.Config) *live {
	t.Helper()
	log, ok := cfg.Log.(*runnel.Memory)
	if !ok {
		log = new(runnel.Memory)
	}
	cfg.ID, cfg.Log = "s", log
	sess, err := runnel.Open(t.Context(), p, opt, cfg)
	if err != nil {
		t.Fatalf("open %s: %v", p.Name(), detail(err))
	}
	return &live{sess, t, log, p, opt, make(map[Scenario][]string)}
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

// play sends the prompt of a scenario and notes its turn, or skips the test
// with the reason why there is none.
func (s Subject) play(l *live, sc Scenario) *runnel.Turn {
	l.t.Helper()
	turn := l.send(strings.ReplaceAll(s.prompt(l.t, sc), Dir, l.opt.Dir))
	l.turns[sc] = append(l.turns[sc], turn.ID)
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
