package codex

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A conversation is the work of one process: the turns of the main thread, the
// turns of subagents, commands that continue after their turn, and open
// questions. It forwards effects from one of these parts to another.
type conversation struct {
	out       *translate.Emitter
	thread    string // the main thread; subagents have their own
	process   string // identifies the agent's process; "" if an older version started it
	announced bool   // the agent's session id was emitted
	config    settings

	turns     turns
	subagents subagents
	commands  commands
	questions questions
}

func newConversation(out *translate.Emitter) conversation {
	return conversation{
		out: out, turns: newTurns(out), subagents: newSubagents(out), commands: make(commands), questions: questions{out: out},
	}
}

// opened processes the response that opens a conversation.
func (cv *conversation) opened(o opened, resumed bool) {
	cv.thread = o.Thread.ID
	cv.config.opened(o)
	var u event.SessionUpdated
	if resumed {
		cv.announced, u.AgentSessionID = true, cv.thread
	}
	u.ModelID, u.PermissionMode, u.Config = cv.config.Model, cv.config.Mode, cv.config.options()
	u.Title = oneLine(o.Thread.Name, 200)
	cv.out.Emit("", u)
	cv.warnOfBypass()
}

// settings emits changed settings. It does nothing for an empty u.
func (cv *conversation) settings(u event.SessionUpdated, sandboxChanged bool) {
	if u.ModelID != "" || u.PermissionMode != "" || u.Config != nil {
		cv.out.Emit(cv.turns.currentID(), u)
	}
	if sandboxChanged {
		cv.warnOfBypass()
	}
}

// warnOfBypass emits a warning if the agent runs without a sandbox.
func (cv *conversation) warnOfBypass() {
	if cv.config.Sandbox == fullAccess {
		cv.notice(event.Notice{Level: event.LevelWarning, Code: "PERMISSIONS_BYPASSED", Message: "Every tool runs without a sandbox and without asking."})
	}
}

// notice emits a notice in the running turn, or out of turn if no turn runs.
func (cv *conversation) notice(n event.Notice) { cv.out.Emit(cv.turns.currentID(), n) }

// started returns the first event of a turn's response.
func (cv *conversation) started() event.ResponseStart {
	return event.ResponseStart{ModelID: cv.config.Model, ProviderID: providerID}
}

// reply queues a message that is written to the agent at once. Its parameters
// are the results of the functions that make messages.
func (cv *conversation) reply(m jsonrpc.Message, err error) {
	if line, err := outgoing(m, err); err == nil {
		cv.out.Reply(line)
	}
}

// begin processes the start of a native turn, which may belong to a subagent.
func (cv *conversation) begin(thread, native string) {
	if native == "" || cv.turns.isOver(native) || cv.subagents.running[native] != nil {
		return
	}
	tn := cv.turns.running[native]
	switch {
	case thread != cv.thread && tn == nil:
		if s := cv.subagents.begin(thread, native); s != nil {
			cv.assignTurn(s)
		}
		return
	case thread != cv.thread || tn != nil && tn.began:
		return
	case tn == nil:
		tn = cv.turns.bind(cv.thread, native, "")
	}
	tn.began = true
	if !cv.announced { // a conversation without a turn cannot be resumed
		cv.announced = true
		cv.out.Emit("", event.SessionUpdated{AgentSessionID: cv.thread})
	}
	tn.out.Emit(cv.started())
	if cv.turns.early || tn.interrupted {
		tn.interrupted, cv.turns.early = true, false
		cv.stop(tn)
	}
}

// running returns the running native turn with an id, nil if no such turn runs.
func (cv *conversation) running(native string) *run {
	if tn := cv.turns.running[native]; tn != nil {
		return &tn.run
	}
	if s := cv.subagents.running[native]; s != nil {
		return &s.run
	}
	return nil
}

// runOf returns the running native turn that a notification refers to, nil if
// that turn is over. It begins the turn if its start was not received.
func (cv *conversation) runOf(n note) *run {
	if tn := cv.turns.running[n.TurnID]; n.ThreadID != "" && (tn == nil || !tn.began) {
		cv.begin(n.ThreadID, n.TurnID)
	}
	return cv.running(n.TurnID)
}

// accepted processes the response to the prompt of the turn id.
func (cv *conversation) accepted(id string, m jsonrpc.Message) {
	if m.Error != nil {
		cv.turns.rejected(id, m.Error)
		return
	}
	var r struct{ Turn nativeTurn }
	native := &r.Turn.ID
	if json.Unmarshal(m.Result, &r) != nil || *native == "" || cv.turns.isOver(*native) || cv.subagents.running[*native] != nil {
		return
	}
	tn := cv.turns.running[*native]
	switch {
	case tn == nil:
		cv.turns.bind(cv.thread, *native, id)
	case tn.id != id && tn.began:
		cv.join(tn, id)
	}
}

// join processes a prompt that the agent added to a native turn that was
// already running and had no prompt. The turn up to here ends. The rest of the
// native turn belongs to the prompt's turn.
func (cv *conversation) join(tn *turn, id string) {
	cv.commands.keep(tn.native, tn.close("joined"))
	tn.out.Emit(event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
	again := cv.turns.bind(cv.thread, tn.native, id)
	again.began, again.ordinal = true, tn.ordinal
	again.out.Emit(cv.started())
}

// stop interrupts a turn, at most maxInterrupts times.
func (cv *conversation) stop(tn *turn) {
	if m, err := tn.interrupt(cv.thread); tn.stops <= maxInterrupts {
		cv.reply(m, err)
	}
}

// maxInterrupts bounds how often one turn is interrupted.
const maxInterrupts = 5

// complete processes the end of a native turn and closes its open items:
//
//   - Text that the agent never completed is cancelled. The agent discards it
//     as well.
//   - A running command continues in the background. Its output so far becomes
//     its output in this turn. When it ends, its whole output is emitted in a
//     background turn (see commandEnded).
//   - In a turn that the user interrupted, every open item is cancelled. The
//     agent would leave the turn's commands running, so it is asked to stop
//     them.
//
// The end must name the thread of the turn: another thread cannot end it.
//
// complete returns the requests of questions that can no longer be answered.
func (cv *conversation) complete(n note) []jsonrpc.ID {
	native := n.Turn.ID
	if cv.running(native) == nil && cv.turns.current() == nil && len(cv.turns.waiting) > 0 {
		n.TurnID = native
		cv.runOf(n) // its start was not received
	}
	tn, s := cv.turns.running[native], cv.subagents.running[native]
	switch {
	case tn != nil && isOf(n, cv.thread):
		return cv.turnDone(tn, *n.Turn)
	case s != nil && isOf(n, s.agent.thread):
		cv.subagents.end(s, *n.Turn)
		cv.turns.ended(native)
	case tn != nil || s != nil:
		cv.out.Skip()
	}
	return nil
}

// isOf reports whether a notification belongs to a thread. Notifications
// without a thread belong to every thread.
func isOf(n note, thread string) bool { return n.ThreadID == "" || n.ThreadID == thread }

// turnDone ends a turn of the main thread. Subagents that still work, and their
// open questions, move to turns of their own. It returns the requests of the
// turn's other open questions.
func (cv *conversation) turnDone(tn *turn, end nativeTurn) (unanswered []jsonrpc.ID) {
	cv.commands.keep(tn.native, tn.close(end.Status))
	cv.turns.ended(tn.native)
	for _, s := range cv.subagents.moveOut(tn) {
		cv.assignTurn(s)
	}
	left, denials := cv.questions.moveOut(tn, cv.subagents.running)
	for _, m := range denials {
		cv.reply(m, nil)
	}
	for _, q := range cv.questions.Drop(tn.id) {
		unanswered = append(unanswered, q.Question.request)
	}
	if end.Error == nil {
		end.Error = tn.failure
	}
	if end.Status == "interrupted" {
		cv.reply(jsonrpc.NewRequest(jsonrpc.String(cleanPrefix+tn.native), methodCleanTerminals, map[string]string{"threadId": cv.thread}))
	}
	tn.out.Emit(outcome(&end, tn.interrupted, tn.usage.event()))
	for _, a := range left {
		cv.questions.askOutOfTurn(a, cv.started())
	}
	return unanswered
}

// assignTurn selects the turn that shows a subagent's next events. This is the
// running turn if that turn started the subagent, or if the call that started
// the subagent is not known yet. Otherwise it is a new background turn.
func (cv *conversation) assignTurn(s *subagentTurn) {
	if main := cv.turns.current(); main != nil && (s.agent.turn == main.id || s.agent.turn == "") {
		s.nest(cv.out.ForTurn(main.id), main)
		return
	}
	s.detach(cv.out.ForTurn(derive(cv.thread + " background " + s.native)))
	s.out.Emit(cv.started())
}

// interrupted records that the user interrupted a native turn.
func (cv *conversation) interrupted(native string) {
	if tn := cv.turns.running[native]; tn != nil {
		tn.interrupted = true
		return
	}
	switch s := cv.subagents.running[native]; {
	case s == nil:
	case s.main != nil:
		s.main.interrupted = true
	default:
		s.background.interrupted = true
	}
}

// mainOf returns the turn of the conversation that shows a native turn, or nil.
func (cv *conversation) mainOf(native string) *turn {
	if s := cv.subagents.running[native]; s != nil {
		return s.main
	}
	return cv.turns.running[native]
}

// commandEnded emits a command that ended after its turn. The command's whole
// output is a turn of its own.
func (cv *conversation) commandEnded(c *piece, it item) {
	out := cv.out.ForTurn(derive(cv.thread + " background " + it.ID))
	out.Emit(cv.started())
	out.Notice(event.LevelInfo, "TASK_ENDED", "A command in the background has ended: "+oneLine(c.title, 300))
	is := newItems(&line{next: 1})
	is.setTurn(out, "")
	is.whole(it)
	out.Emit(event.ResponseDone{Status: event.StatusCompleted})
}

// itemStarted processes the start of an item.
func (cv *conversation) itemStarted(n note) {
	r := cv.runOf(n)
	if r == nil || n.Item == nil || r.pieces[n.Item.ID] != nil {
		cv.out.Skip()
		return
	}
	r.progressed()
	cv.begins(r, *n.Item)
}

// itemCompleted processes the end of an item.
func (cv *conversation) itemCompleted(n note) {
	if n.Item == nil {
		return
	}
	if c := cv.commands.end(n.TurnID, n.Item.ID); c != nil {
		cv.commandEnded(c, *n.Item)
		return
	}
	r := cv.runOf(n)
	if r == nil {
		cv.out.Skip() // usually an item of a turn that was interrupted
		return
	}
	cv.whole(r, *n.Item)
}

// begins forwards the start of an item to its turn.
func (cv *conversation) begins(r *run, it item) {
	if it.Type != "subAgentActivity" || cv.subagents.activity(r, it) {
		r.begins(it)
	}
}

// whole forwards a completed item to its turn.
func (cv *conversation) whole(r *run, it item) {
	if it.Type != "subAgentActivity" || cv.subagents.activity(r, it) {
		r.whole(it)
	} else if c := r.pieces[it.ID]; c != nil && !c.call {
		c.done = true // the item is not shown; a call stays open until subagents.activity ends it
	}
}

// turnToAsk returns the id of the turn that shows a question, and the turn's
// earlier questions. If a subagent asks while no turn runs, turnToAsk begins a
// turn that contains only the question.
func (cv *conversation) turnToAsk(q question, request jsonrpc.ID) (id string, earlier *translate.Asked, outOfTurn bool) {
	cv.runOf(note{ThreadID: q.ThreadID, TurnID: q.TurnID})
	if tn := cv.turns.running[q.TurnID]; tn != nil {
		return tn.id, &tn.questions, false
	}
	if tn := cv.turns.current(); tn != nil {
		return tn.id, &tn.questions, false
	}
	after := ""
	if q.TurnID == "" && len(cv.turns.over) > 0 {
		after = cv.turns.over[len(cv.turns.over)-1]
	}
	id = derive(cv.thread + " question " + cv.process + q.TurnID + after + " " + request.Key())
	for cv.turns.isOver(id) { // an earlier question under the same request id
		id = derive("again " + id)
	}
	cv.turns.ended(id) // no other question gets this turn
	cv.out.Emit(id, cv.started())
	return id, new(translate.Asked), true
}

// calling returns the tool call that a question is about, or nil.
func (cv *conversation) calling(q question) *piece {
	r := cv.running(q.TurnID)
	if r == nil {
		return nil
	}
	if c := r.pieces[q.ItemID]; c != nil && c.called {
		return c
	}
	if q.Server != "" { // the question names only the server
		for _, c := range r.inOrder() {
			if c.call && !c.done && strings.HasPrefix(c.name, "mcp__"+q.Server+"__") {
				return c
			}
		}
	}
	return nil
}
