// Package providertest is the conformance suite for providers. It runs the real
// agent with a scripted model.
//
// The test of a provider describes its agent in a [Subject] and calls [Run].
// Subject.Prompts omits a scenario that the agent does not support, and
// Subject.Cannot gives the reason. The suite has no code for specific agents.
//
// # The suite's contract
//
// Run runs every case with every agent and compares the results with
// testdata/conformance. Only the cases in Subject.Repeats need RUNNEL_LONG=1.
// The suite fails if a result, a reason, a capability or a version changes.
// `make docs` generates docs/agents.md from the same files.
//
// One agent process serves several cases. Scenarios that complete share one
// conversation, and the cases that deny, interrupt, attach files, kill and close
// continue it. At the end, TestReplayEqualsLive compares the turns of the
// scenarios that complete with the agent's own history of the conversation, and
// RejectionReplayed uses the same history. A scenario with an entry in
// Subject.Needs has its own conversation. A case starts its own process only if
// it suspends processes, or if work outlives the turn. After a failed case, the
// next case starts a new agent. Each case also runs alone (-run).
//
// Cases run one after another, because some signal or count all descendants of
// the test process. They wait for events and files, never for a fixed time.
// Timeouts only turn a hanging agent into a failure.
//
// TestReplayEqualsLive compares items, including their ids. It ignores times,
// positions in the log and native data. It also ignores the order of the
// outputs of parallel calls: an agent reports them in the order in which they
// end, and may store them in another order. Further differences of an agent are
// declared in Subject.TurnsByOrder, Subject.OutputsWithCalls, Subject.TiedCalls
// or Subject.Differences.
package providertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Scenario is the name of a behaviour that the suite requests from the agent.
type Scenario string

// The scenarios. Each comment states what the prompt must cause.
const (
	Text       Scenario = "text"      // one message that ends with Subject.MessageEnd
	Reasoning  Scenario = "reasoning" // reasoning, then a message
	Tool       Scenario = "tool"      // a tool call with output, with or without an approval, then a message
	Parallel   Scenario = "parallel"  // two tool calls that are open until the file "both" exists, then a message
	Image      Scenario = "image"     // a message; the prompt has an image
	Edit       Scenario = "edit"      // a file edit with its changes, with or without an approval
	Approval   Scenario = "approval"  // a tool call that needs an approval, then a message
	LongText   Scenario = "long-text" // a message that does not end before an interrupt
	LongTool   Scenario = "long-tool" // a tool that runs until an interrupt
	Failure    Scenario = "failure"   // a failure of the model that makes the turn fail
	Subagent   Scenario = "subagent"  // a subagent that calls a tool and sends a message, within the turn
	Plan       Scenario = "plan"      // a plan, then a message
	Question   Scenario = "question"  // one question to the user, then a message
	Background Scenario = "behind"    // a background task that asks for approval, waits for the file "go", and ends with a message that ends with Subject.MessageEnd
	Denial     Scenario = "denial"    // no prompt: the turn of Approval continues after a denial
	History    Scenario = "history"   // no prompt: the provider reads the conversations that the agent stores
	Recover    Scenario = "recover"   // after Failure or a crash: a message that ends with Subject.MessageEnd
)

// Dir is a placeholder in prompts for the directory of the environment. It is
// for agents that accept only absolute paths.
const Dir = "{{dir}}"

// Subject describes a provider and its agent.
type Subject struct {
	// New returns a provider and the options for a new environment: an empty
	// directory, a home directory, and a scripted model. New removes the
	// environment when t ends.
	New func(t *testing.T) (runnel.Provider, runnel.Options)

	// Needs changes the options for scenarios that require, for example,
	// another model or another permission mode.
	Needs map[Scenario]func(*runnel.Options)

	// Prompts holds the prompt for each scenario.
	Prompts map[Scenario]string

	// Cannot gives, for each scenario without a prompt, the reason why the
	// agent does not support it, with the tested version.
	Cannot map[Scenario]string

	// Lacks is like Cannot, for scenarios that the agent supports but its
	// provider does not.
	Lacks map[Scenario]string

	// Version is the version of the agent. Notes holds further facts for users.
	// Both appear in docs/agents.md.
	Version string
	Notes   []string

	// SawImage reports whether the model received the image of the prompt. opt
	// identifies the environment: New returned these options. Default: the
	// suite does not check it.
	SawImage func(opt runnel.Options) bool

	// ModelReceived reports whether the model received the text what. opt
	// identifies the environment: New returned these options. Default: the
	// suite does not check it.
	ModelReceived func(opt runnel.Options, what string) bool

	// TurnsByOrder means that the agent does not store Runnel's turn ids. A
	// turn of its history has another id than the live turn, and the turns
	// match by their order.
	TurnsByOrder bool

	// OutputsWithCalls means that the agent's history has each output directly
	// after its call, regardless of the live order.
	OutputsWithCalls bool

	// TiedCalls means that the agent's history does not tell which of several
	// calls started first if they started in the same millisecond. Such calls
	// may have each other's places and ids.
	TiedCalls bool

	// MessageEnd is the end of the message in Text, Recover and Background.
	MessageEnd string

	// Repeats lists cases that test Runnel's code, which they already test with
	// another agent of the same provider; what they need of this agent is in its
	// recordings. They run only with RUNNEL_LONG=1 or -results; otherwise the
	// report keeps their stored results.
	Repeats []string

	// Processes means that the provider runs its agent as a process.
	Processes bool

	// Sandbox is the sandbox of the agents; the options of New have it. Its
	// results are stored apart from those without a sandbox.
	Sandbox runnel.Sandbox

	// Differences holds the allowed differences between live and replayed
	// items. The key is the reason. The function reports whether the comparison
	// omits an item.
	Differences map[string]func(event.Item) bool

	report *report
}

// waitTimeout is the maximum time of every wait for a real agent. It only turns
// a hanging agent into a failure, so it is long enough for a busy machine.
const waitTimeout = 4 * time.Minute

// order lists the names of the cases in the order of the results.
var order = []string{
	"Contract", "Text", "Reasoning", "Tool", "Parallel", "Edit", "Image", "AttachmentAlone", "AttachmentWithBlankText", "AttachmentRejected", "PDF", "RejectionReplayed", "ApprovalAllowed", "ApprovalDenied", "ApprovalDeniedAndStopped",
	"InterruptInText", "InterruptInTool", "InterruptInApproval", "Failure", "Subagent", "Plan", "Question", "Behind",
	"ResumeAfterKill", "ResumeAfterClose", "StuffedPipes", "NothingIsLeft", "ReplayEqualsLive",
}

// Run runs the suite with the subject and compares the results with
// testdata/conformance. With the flag -results it writes them instead.
func Run(t *testing.T, s Subject) {
	for _, sc := range []Scenario{Text, Reasoning, Tool, Parallel, Edit, Image, Approval, LongText, LongTool, Failure, Subagent, Plan, Question, Background, Recover} {
		if s.Prompts[sc] == "" && s.Cannot[sc] == "" && s.Lacks[sc] == "" {
			t.Errorf("%s: neither a prompt nor a reason why the agent cannot do it", sc)
		}
	}
	s.report = &report{reasons: make(map[string]string)}
	p, _ := s.New(t)
	if why := s.Cannot[History] + s.Lacks[History]; isHistorian(p) == (why != "") && !(isHistorian(p) && s.Sandbox.IsOn()) {
		t.Errorf("%s: reads the agent's history: %v, but the reason why it cannot is %q", History, isHistorian(p), why)
	}
	s.run(t, "Contract", s.contract)

	c := s.conversation(t, nil)
	own := s.conversations(t, c)
	s.run(t, "Text", with(own[Text], s.text))
	s.run(t, "Reasoning", with(own[Reasoning], s.reasoning))
	s.run(t, "Tool", with(own[Tool], s.tool))
	s.run(t, "Parallel", with(own[Parallel], s.parallel))
	s.run(t, "Edit", with(own[Edit], s.edit))
	s.run(t, "ApprovalAllowed", with(own[Approval], s.approvalAllowed))
	s.run(t, "Subagent", with(own[Subagent], s.subagent))
	s.run(t, "Plan", with(own[Plan], s.plan))
	s.run(t, "Question", with(own[Question], s.question))
	s.run(t, "Failure", with(own[Failure], s.failure))
	s.run(t, "AttachmentRejected", with(own[Image], s.attachmentRejected)) // last: some agents store its turns differently
	asks, files := own[Approval], own[Image]
	for _, other := range own {
		other.settle(t) // of the following cases, agents may store turns differently or not at all
		if other != c && other != asks && other != files {
			other.end()
		}
	}

	s.run(t, "Image", with(c, s.image))
	s.run(t, "ApprovalDenied", with(asks, s.approvalDenied))
	s.run(t, "ApprovalDeniedAndStopped", with(asks, s.approvalStopped))
	s.run(t, "InterruptInText", with(c, func(t *testing.T, c *conversation) { s.interrupt(t, c, LongText) }))
	s.run(t, "InterruptInTool", with(c, func(t *testing.T, c *conversation) { s.interrupt(t, c, LongTool) }))
	s.run(t, "InterruptInApproval", with(asks, func(t *testing.T, c *conversation) { s.interrupt(t, c, Approval) }))
	s.run(t, "AttachmentAlone", with(files, s.attachmentAlone))
	s.run(t, "AttachmentWithBlankText", with(files, s.attachmentWithBlankText))
	s.run(t, "PDF", with(files, s.pdf))
	for _, other := range own {
		if other != c {
			other.end()
		}
	}
	s.run(t, "ResumeAfterClose", with(c, s.resumeAfterClose))
	s.run(t, "ResumeAfterKill", with(c, s.resumeAfterKill))
	s.run(t, "NothingIsLeft", with(c, s.noProcessAfterClose))
	c.end()

	s.run(t, "TestReplayEqualsLive", func(t *testing.T) { s.replayEqualsLive(t, own) })
	s.run(t, "RejectionReplayed", with(own[Image], s.rejectionReplayed))
	for _, other := range own {
		other.close()
	}

	s.run(t, "Behind", s.backgroundTask)
	s.run(t, "StuffedPipes", s.agentReadsNothing)
	s.compareReport(t, p)
}

// live is a session of the subject, with its event log and options.
type live struct {
	*runnel.Session
	t        *testing.T
	log      *runnel.Memory
	provider runnel.Provider
	opt      runnel.Options
	turns    map[Scenario][]string // ids of the turns of each scenario; shared by the cases of a conversation
}

// open starts an agent for a scenario in a new environment.
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

// play sends the prompt of a scenario and records its turn. It skips the test
// with the reason if the scenario has no prompt.
func (s Subject) play(l *live, sc Scenario) *runnel.Turn {
	l.t.Helper()
	turn := l.send(strings.ReplaceAll(s.prompt(l.t, sc), Dir, l.opt.Dir))
	l.turns[sc] = append(l.turns[sc], turn.ID)
	return turn
}

// watch calls see for each event of a turn until see returns true or the turn
// ends.
func (l *live) watch(turn *runnel.Turn, see func(event.Event) bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), waitTimeout)
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
	ctx, cancel := context.WithTimeout(l.t.Context(), waitTimeout)
	defer cancel()
	res, err := turn.Wait(ctx)
	if ctx.Err() != nil {
		l.t.Fatalf("the turn does not end\n%s", l.dump())
	}
	return res, err
}

// completes waits for a turn and fails the test unless the turn completes.
func (l *live) completes(turn *runnel.Turn) runnel.Result {
	l.t.Helper()
	res, err := l.wait(turn)
	if err != nil || res.Status != event.StatusCompleted {
		l.t.Fatalf("the turn ended as %s: %v\n%s", res.Status, detail(err), l.dump())
	}
	CheckLog(l.t, l.log, l.ID())
	return res
}

// items returns the items of a turn.
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
