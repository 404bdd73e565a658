package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

func itoa(n int) string { return strconv.Itoa(n) }

// turns owns the running turn, the queue of prompts, and the usage and cost of
// the conversation.
type turns struct {
	emitter *translate.Emitter
	session *session // only its settings are changed

	now         *turn    // nil while no turn runs
	waiting     []string // ids of turns whose prompts were sent while another turn ran
	lastMessage string   // native id of the last message of the last turn
	unprompted  int      // number of turns that the agent started without a prompt
	cost        float64  // cost of the conversation in USD, as reported by the agent
	used        usage    // usage of the conversation, for agents with cumulativeUsage
	costUnknown bool     // the agent's cost includes earlier processes, and cost lacks them
}

// turn is the turn that runs.
type turn struct {
	id          string
	prompted    bool         // a prompt started the turn
	command     bool         // the prompt is a command of the agent
	begun       bool         // version 2: the agent reported the start of the turn
	started     bool         // ResponseStart is emitted
	interrupted bool         // Runnel asked the agent to stop
	refused     bool         // the user denied a call and stopped the turn
	cost        float64      // cost of the conversation at the start of the turn
	costUnknown bool         // cost is unknown, so the cost of the turn is too
	used        *usage       // sum of the usage of model calls, if reported per call
	shown       *event.Usage // as last shown

	out       translate.TurnEmitter
	threads   threads
	calls     toolCalls
	approvals translate.Approvals[question]
	asked     translate.Asked
}

// begin starts a turn. startedTurn emits its ResponseStart before the first
// event of the turn.
func (ts *turns) begin(id string, prompted bool) {
	tn := &turn{id: id, prompted: prompted, cost: ts.cost, costUnknown: ts.costUnknown, out: ts.emitter.ForTurn(id)}
	tn.threads = threads{turn: id, out: tn.out, session: ts.session, byParent: make(map[string]*thread)}
	tn.calls = toolCalls{
		out: tn.out, session: ts.session, threads: &tn.threads,
		byID: make(map[string]*call), terminals: make(terminals),
	}
	ts.now = tn
}

// startedTurn returns the running turn. It emits the turn's ResponseStart
// first, unless that is already emitted. A turn must be running.
func (ts *turns) startedTurn() *turn {
	if !ts.now.started {
		ts.now.started = true
		ts.now.out.Emit(ts.responseStart())
	}
	return ts.now
}

func (ts *turns) responseStart() event.ResponseStart {
	return event.ResponseStart{ModelID: ts.session.settings.model, ProviderID: ts.session.agent.Name}
}

// out returns an emitter for events that may occur at any time. They belong to
// the running turn if its ResponseStart is emitted, and to no turn otherwise.
func (ts *turns) out() translate.TurnEmitter {
	if ts.now != nil && ts.now.started {
		return ts.now.out
	}
	return ts.emitter.ForTurn("")
}

// prompt handles a prompt to the agent. It starts a turn, or adds the prompt to
// the queue if a prompted turn is running.
func (ts *turns) prompt(id string, m jsonrpc.Message) {
	p := translate.DecodeLenient[struct {
		Prompt json.RawMessage `json:"prompt"`
	}](m.Params)
	ts.show(id, blocks(p.Prompt))
	switch {
	case ts.now != nil && ts.now.prompted:
		ts.waiting = append(ts.waiting, id)
		return
	case ts.now != nil: // a turn without a prompt, whose end the agent did not report
		ended := ts.emitter.Capture(func() { ts.end(event.ResponseDone{Status: event.StatusCompleted}) })
		ts.emitter.Defer(ended...)
	}
	ts.begin(id, true)
	ts.now.command = ts.session.isCommandOf(blocks(p.Prompt))
}

// show emits a prompt as the first item of its turn.
func (ts *turns) show(id string, content []block) {
	prompt, warning := userMessage(content, ts.emitter.Picture)
	ts.emitter.UserMessage(id, translate.ItemID(translate.Prefix(id, ""), 0, 0), prompt, warning)
}

// interrupt records that Runnel asked the agent to stop.
func (ts *turns) interrupt() {
	if ts.now != nil {
		ts.now.interrupted = true
	}
}

// answered handles the answer to a prompt. In version 1 the answer ends the
// turn. In version 2 the agent answers when the turn starts, so only an error
// or a stop reason ends it.
func (ts *turns) answered(id string, m jsonrpc.Message) {
	if i := slices.Index(ts.waiting, id); i >= 0 { // answered out of order: the turn has no items
		ts.waiting = slices.Delete(ts.waiting, i, i+1)
		out := ts.emitter.ForTurn(id)
		out.Emit(ts.responseStart())
		out.Emit(event.ResponseDone{Status: event.StatusCompleted})
		return
	}
	if ts.now == nil || ts.now.id != id {
		return
	}
	p := translate.DecodeLenient[prompted](m.Result)
	if ts.session.version >= 2 && m.Error == nil && p.StopReason == "" {
		ts.now.begun = true
		return
	}
	if f := ts.session.q.live.usage; f != nil && p.Usage == nil {
		p.Usage = f(p.Meta)
	}
	if p.Usage == nil {
		p.Usage = ts.now.used
	}
	ts.finish(p.StopReason, p.Usage, m.Error)
}

// state handles a state update of version 2. If the agent reports that it runs
// while no turn is running, it has started a turn by itself.
func (ts *turns) state(u update) {
	switch u.State {
	case "running", "requires_action":
		if ts.now == nil {
			ts.unprompted++
			ts.begin(derive(ts.session.id+" unasked "+itoa(ts.unprompted)), false)
		}
		ts.now.begun = true
	case "idle":
		if ts.now != nil && ts.now.begun {
			ts.finish(u.StopReason, u.Usage, u.Error)
		}
	}
}

// finish ends the running turn with the outcome that the agent reports.
func (ts *turns) finish(stop string, u *usage, failed *jsonrpc.Error) {
	tn := ts.startedTurn()
	used := ts.turnUsage(u)
	tn.showUsage(used)
	if failed != nil && !tn.cancelled(stop) {
		tn.dropFailureText(failed)
	}
	ts.end(ts.outcome(stop, used, failed))
}

// cancelled reports whether the user asked to end the turn. If so, the turn
// ends as cancelled even if the agent reports an error.
func (tn *turn) cancelled(stop string) bool {
	return tn.interrupted || tn.refused && (stop == "cancelled" || stop == "end_turn")
}

// outcome returns the terminal event of the running turn.
func (ts *turns) outcome(stop string, used *event.Usage, failed *jsonrpc.Error) event.Body {
	done := event.ResponseDone{Status: event.StatusCompleted, FinishReason: text.OneLine(stop, 100), Usage: used}
	agent := ts.session.agent
	switch {
	case ts.now.cancelled(stop):
		done.Status = event.StatusCancelled
		return done
	case failed == nil && stop == "cancelled":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, translate.FaultUnasked).Fault()}
	case failed != nil:
		return event.ResponseError{Error: agent.fault(failed)}
	case stop == "error":
		return event.ResponseError{Error: agent.fault(&jsonrpc.Error{})}
	case stop == "refusal":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, translate.FaultDeclined).Fault()}
	case stop == "max_turn_requests":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped at its limit of model calls per turn. Send a prompt to continue.").Fault()}
	}
	main := ts.now.threads.of("")
	if f := ts.session.q.live.failed; f != nil && main.last != "" && f(ts.session, ts.now, used) {
		return event.ResponseError{Error: agent.fault(&jsonrpc.Error{Message: main.last})}
	}
	return done
}

// dropFailureText cancels the open message if its text is the text of the
// error. Some agents also send the error as text of the model.
func (tn *turn) dropFailureText(failed *jsonrpc.Error) {
	th := tn.threads.of("")
	if th.open != nil && th.open.typ == event.TypeMessage && strings.TrimSpace(th.open.text.String()) == strings.TrimSpace(failed.Message) {
		th.cancel("")
	}
}

// end ends the running turn. It ends the open items, cancels the open approvals
// as the protocol requires, and emits the terminal event. Then it starts the
// turn of the next prompt in the queue.
func (ts *turns) end(terminal event.Body) {
	tn := ts.startedTurn()
	tn.settle(terminal)
	for _, a := range tn.approvals.Drop(tn.id) {
		reply(ts.emitter, a.Question.cancelled())
		tn.out.Emit(translate.Withdrawn(a.ID))
	}
	tn.out.Emit(terminal)
	ts.now, ts.lastMessage = nil, tn.threads.of("").lastID
	if len(ts.waiting) > 0 {
		next := ts.waiting[0]
		ts.waiting = ts.waiting[1:]
		ts.begin(next, true)
	}
}

// settle ends the open items of a turn.
func (tn *turn) settle(terminal event.Body) {
	done, _ := terminal.(event.ResponseDone)
	var why event.CancelReason
	if done.Status == event.StatusCancelled {
		why = event.ReasonUserCancel
	}
	for _, parent := range slices.Sorted(maps.Keys(tn.threads.byParent)) {
		if th := tn.threads.byParent[parent]; why == "" { // not cancelled by the user: keep the messages
			th.close()
		} else {
			th.cancel(why)
		}
	}
	tn.calls.settle(done.Status == event.StatusCompleted, why)
}

// add adds the usage of one model call. u is nil if the agent reported none.
func (tn *turn) add(u *usage) {
	if u == nil {
		return
	}
	if tn.used == nil {
		tn.used = &usage{}
	}
	tn.used.Input += u.Input
	tn.used.Output += u.Output
	tn.used.CachedRead += u.CachedRead
	tn.used.CachedWrite += u.CachedWrite
	tn.used.Thought += u.Thought
}

// showUsage emits the usage of the turn so far, unless it is nil or shown already.
func (tn *turn) showUsage(used *event.Usage) {
	if used == nil || tn.shown != nil && *tn.shown == *used {
		return
	}
	tn.shown = used
	tn.out.Emit(event.UsageUpdated{Usage: used})
}

// turnUsage returns the usage of a turn, or nil if the agent reported none. For
// an agent with cumulativeUsage, it subtracts the usage of earlier turns.
func (ts *turns) turnUsage(u *usage) *event.Usage {
	if u == nil {
		return nil
	}
	n := *u
	if ts.session.q.live.cumulativeUsage {
		before := ts.used
		ts.used = n
		if n.Input >= before.Input && n.Output >= before.Output {
			n = usage{
				n.Input - before.Input, n.Output - before.Output, max(n.CachedRead-before.CachedRead, 0),
				max(n.CachedWrite-before.CachedWrite, 0), max(n.Thought-before.Thought, 0),
			}
		}
	}
	if n == (usage{}) {
		return nil
	}
	return &event.Usage{
		InputTokens: n.Input, OutputTokens: n.Output, CacheReadInputTokens: n.CachedRead,
		CacheCreationInputTokens: n.CachedWrite, ReasoningTokens: n.Thought,
	}
}

// usageUpdated handles an update of the context size and of the conversation's
// cost. show is false during a replay: then it emits no event.
func (ts *turns) usageUpdated(u update, show bool) {
	b := event.UsageUpdated{ContextTokens: u.Used, ContextWindow: u.Size}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount >= 0 {
		if tn := ts.now; tn != nil && !tn.costUnknown {
			if u.Cost.Amount < tn.cost { // the agent restarted its count
				tn.cost = 0
			}
			spent := u.Cost.Amount - tn.cost
			b.CostUSD = &spent
		}
		ts.cost, ts.costUnknown = u.Cost.Amount, false
	}
	if show && (b.ContextTokens > 0 || b.CostUSD != nil) {
		ts.out().Emit(b)
	}
}
