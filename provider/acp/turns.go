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

// turns owns the turn that runs, the prompts that wait for its end, and what
// the turns of the conversation have used.
type turns struct {
	emitter *translate.Emitter
	session *session // read only

	now         *turn    // nil while no turn runs
	waiting     []string // turns whose prompts were sent while another turn ran
	lastMessage string   // native id of the last message of the last turn
	unprompted  int      // turns that no prompt of ours began
	cost        float64  // of the conversation in USD, as the agent counts it
	used        usage    // by the conversation, if the agent counts totals
}

// turn is the turn that runs.
type turn struct {
	id          string
	prompted    bool    // it answers a prompt of ours
	command     bool    // the prompt is a command of the agent's own
	begun       bool    // version 2: the agent reported that it works
	started     bool    // its ResponseStart is out
	interrupted bool    // we asked the agent to stop
	refused     bool    // a denial ends the turn
	cost        float64 // of the conversation when the turn began
	used        *usage  // by the calls of the model, if the agent reports it for each

	out       translate.TurnEmitter
	threads   threads
	calls     toolCalls
	approvals translate.Approvals[question]
}

// begin begins a turn. Its ResponseStart follows with the first thing to show.
func (ts *turns) begin(id string, prompted bool) {
	tn := &turn{id: id, prompted: prompted, cost: ts.cost, out: ts.emitter.ForTurn(id)}
	tn.threads = threads{turn: id, out: tn.out, session: ts.session, byParent: make(map[string]*thread)}
	tn.calls = toolCalls{
		out: tn.out, session: ts.session, threads: &tn.threads,
		byID: make(map[string]*call), terminals: make(terminals),
	}
	ts.now = tn
}

// startedTurn returns the turn that runs, after it has emitted its ResponseStart.
// The caller makes sure that one runs.
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

// out returns an emitter for what may come at any time: the events belong to
// the turn that runs if it has started, and are out of turn otherwise.
func (ts *turns) out() translate.TurnEmitter {
	if ts.now != nil && ts.now.started {
		return ts.now.out
	}
	return ts.emitter.ForTurn("")
}

// prompt takes a prompt of ours, which begins a turn or waits for its turn.
func (ts *turns) prompt(id string, m jsonrpc.Message) {
	p := translate.Loose[struct {
		Prompt json.RawMessage `json:"prompt"`
	}](m.Params)
	ts.show(id, blocks(p.Prompt))
	switch {
	case ts.now != nil && ts.now.prompted:
		ts.waiting = append(ts.waiting, id)
		return
	case ts.now != nil: // the agent did not report the end of this turn
		ended := ts.emitter.Capture(func() { ts.end(event.ResponseDone{Status: event.StatusCompleted}) })
		ts.emitter.Defer(ended...)
	}
	ts.begin(id, true)
	ts.now.command = ts.session.isCommandOf(blocks(p.Prompt))
}

// show emits a prompt as the first item of its turn.
func (ts *turns) show(id string, content []block) {
	prompt, warning := userMessage(content)
	ts.emitter.UserMessage(id, translate.ItemID(translate.Prefix(id, ""), 0, 0), prompt, warning)
}

// interrupt notes that we asked the agent to stop.
func (ts *turns) interrupt() {
	if ts.now != nil {
		ts.now.interrupted = true
	}
}

// answered takes the answer to a prompt. It ends the turn, except that version
// 2 answers when the turn begins.
func (ts *turns) answered(id string, m jsonrpc.Message) {
	if i := slices.Index(ts.waiting, id); i >= 0 { // out of order: the turn has nothing to show
		ts.waiting = slices.Delete(ts.waiting, i, i+1)
		out := ts.emitter.ForTurn(id)
		out.Emit(ts.responseStart())
		out.Emit(event.ResponseDone{Status: event.StatusCompleted})
		return
	}
	if ts.now == nil || ts.now.id != id {
		return
	}
	p := translate.Loose[prompted](m.Result)
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

// state takes what version 2 reports of the agent's work. An agent that works
// without a prompt has begun a turn by itself.
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

// finish ends the turn that runs as the agent reports.
func (ts *turns) finish(stop string, u *usage, failed *jsonrpc.Error) {
	tn := ts.startedTurn()
	used := ts.turnUsage(u)
	if used != nil {
		tn.out.Emit(event.UsageUpdated{Usage: used})
	}
	if failed != nil && !tn.cancelled(stop) {
		tn.dropFailureText(failed)
	}
	ts.end(ts.outcome(stop, used, failed))
}

// cancelled reports whether we asked for the end of the turn. Then the agent's
// answer does not matter, even if it is an error.
func (tn *turn) cancelled(stop string) bool {
	return tn.interrupted || tn.refused && (stop == "cancelled" || stop == "end_turn")
}

// outcome returns the terminal event of the turn that runs.
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
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped: it made as many model calls as it may in a turn. Send a prompt to go on.").Fault()}
	}
	main := ts.now.threads.of("")
	if f := ts.session.q.live.failed; f != nil && main.last != "" && f(ts.session, ts.now, used) {
		return event.ResponseError{Error: agent.fault(&jsonrpc.Error{Message: main.last})}
	}
	return done
}

// dropFailureText cancels the last message if it is the text of the failure:
// some agents send that as text of the model, too.
func (tn *turn) dropFailureText(failed *jsonrpc.Error) {
	th := tn.threads.of("")
	if th.open != nil && th.open.typ == event.TypeMessage && strings.TrimSpace(th.open.text.String()) == strings.TrimSpace(failed.Message) {
		th.cancel("")
	}
}

// end ends the turn that runs: its open items, its open questions, which are
// answered as the protocol wants it, and the turn itself. A prompt that waits
// begins the next turn.
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
		if th := tn.threads.byParent[parent]; why == "" { // the messages of a turn that failed are whole
			th.close()
		} else {
			th.cancel(why)
		}
	}
	tn.calls.settle(done.Status == event.StatusCompleted, why)
}

// add adds what a call of the model used, nil if the agent did not report it.
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

// turnUsage returns what a turn used, nil if the agent did not report it.
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

// usageUpdated takes what the agent reports of the context and the cost of the
// conversation. A replay shows no usage.
func (ts *turns) usageUpdated(u update, show bool) {
	b := event.UsageUpdated{ContextTokens: u.Used, ContextWindow: u.Size}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount >= 0 {
		if tn := ts.now; tn != nil {
			if u.Cost.Amount < tn.cost { // the agent counts anew
				tn.cost = 0
			}
			spent := u.Cost.Amount - tn.cost
			b.CostUSD = &spent
		}
		ts.cost = u.Cost.Amount
	}
	if show && (b.ContextTokens > 0 || b.CostUSD != nil) {
		ts.out().Emit(b)
	}
}
