package codex

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A conversation is what the process works on: the turns of the main thread
// and, beside them, those of subagents, commands that outlived their turn, and
// questions. It passes on what one of them causes in another.
type conversation struct {
	out       *translate.Emitter
	thread    string // the main one; the process has those of subagents, too
	announced bool   // the conversation's id was emitted
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

// opened takes the answer that makes a conversation.
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

// settings emits what has changed of the settings.
func (cv *conversation) settings(u event.SessionUpdated, sandboxChanged bool) {
	if u.ModelID != "" || u.PermissionMode != "" || u.Config != nil {
		cv.out.Emit(cv.turns.currentID(), u)
	}
	if sandboxChanged {
		cv.warnOfBypass()
	}
}

// warnOfBypass emits a notice when nothing holds the agent back any more.
func (cv *conversation) warnOfBypass() {
	if cv.config.Sandbox == fullAccess {
		cv.notice(event.Notice{Level: event.LevelWarning, Code: "PERMISSIONS_BYPASSED", Message: "Every tool runs without a sandbox and without asking."})
	}
}

// notice emits a notice in the turn in flight, if there is one.
func (cv *conversation) notice(n event.Notice) { cv.out.Emit(cv.turns.currentID(), n) }

// started is the first event of a turn's answer.
func (cv *conversation) started() event.ResponseStart {
	return event.ResponseStart{ModelID: cv.config.Model, ProviderID: providerID}
}

// reply has a message written at once. It takes the results of the functions
// that make one.
func (cv *conversation) reply(m jsonrpc.Message, err error) {
	if line, err := outgoing(m, err); err == nil {
		cv.out.Reply(line)
	}
}

// begin takes the begin of a native turn, which may be a subagent's.
func (cv *conversation) begin(thread, native string) {
	if native == "" || cv.turns.isOver(native) || cv.subagents.running[native] != nil {
		return
	}
	tn := cv.turns.running[native]
	switch {
	case thread != cv.thread && tn == nil:
		if s := cv.subagents.begin(thread, native); s != nil {
			cv.place(s)
		}
		return
	case thread != cv.thread || tn != nil && tn.began:
		return
	case tn == nil:
		tn = cv.turns.bind(cv.thread, native, "")
	}
	tn.began = true
	if !cv.announced { // before its first turn there is nothing to resume
		cv.announced = true
		cv.out.Emit("", event.SessionUpdated{AgentSessionID: cv.thread})
	}
	tn.out.Emit(cv.started())
	if cv.turns.early || tn.interrupted {
		tn.interrupted, cv.turns.early = true, false
		cv.stop(tn)
	}
}

// running is the native turn that is known and not over, or nil.
func (cv *conversation) running(native string) *run {
	if tn := cv.turns.running[native]; tn != nil {
		return &tn.run
	}
	if s := cv.subagents.running[native]; s != nil {
		return &s.run
	}
	return nil
}

// runOf is the native turn that a notification is about. It begins the turn if
// we missed that, and is nil for one that is over.
func (cv *conversation) runOf(n note) *run {
	if tn := cv.turns.running[n.TurnID]; n.ThreadID != "" && (tn == nil || !tn.began) {
		cv.begin(n.ThreadID, n.TurnID)
	}
	return cv.running(n.TurnID)
}

// accepted takes the answer to the prompt of a turn.
func (cv *conversation) accepted(id string, m jsonrpc.Message) {
	if m.Error != nil {
		cv.turns.refused(id, m.Error)
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
		cv.joined(tn, id)
	}
}

// joined takes the news that a prompt went into a turn that nobody asked for
// and that ran already: from here on that turn is the prompt's.
func (cv *conversation) joined(tn *turn, id string) {
	cv.commands.keep(tn.native, tn.close("joined"))
	tn.out.Emit(event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
	again := cv.turns.bind(cv.thread, tn.native, id)
	again.began, again.ordinal = true, tn.ordinal
	again.out.Emit(cv.started())
}

// stop has the agent end a turn, at most maxInterrupts times.
func (cv *conversation) stop(tn *turn) {
	if m, err := tn.interrupt(cv.thread); tn.stops <= maxInterrupts {
		cv.reply(m, err)
	}
}

// maxInterrupts bounds how often an interrupt is repeated.
const maxInterrupts = 5

// complete takes the end of a native turn. What is still open then is closed:
//
//   - text that never became whole is cancelled; the agent forgets it, too;
//   - a command that runs goes on in the background. What it printed so far is
//     its output in this turn; all that it printed is emitted when it ends, in
//     a turn of its own, which nobody asked for (see commandEnded);
//   - in a turn that we interrupted everything is cancelled, and the agent is
//     told to end its commands: it would leave them running.
//
// It returns the requests of questions that nobody answers any more.
func (cv *conversation) complete(n note) []jsonrpc.ID {
	native := n.Turn.ID
	if cv.running(native) == nil && cv.turns.current() == nil && len(cv.turns.waiting) > 0 {
		n.TurnID = native
		cv.runOf(n) // its begin was lost
	}
	if tn := cv.turns.running[native]; tn != nil {
		return cv.turnDone(tn, *n.Turn)
	}
	if s := cv.subagents.running[native]; s != nil {
		cv.subagents.end(s, *n.Turn)
		cv.turns.ended(native)
	}
	return nil
}

// turnDone ends a turn of the main thread. Its subagents that work on, and the
// questions that they ask, leave it. The requests of its other questions are
// returned.
func (cv *conversation) turnDone(tn *turn, end nativeTurn) (unanswered []jsonrpc.ID) {
	cv.commands.keep(tn.native, tn.close(end.Status))
	cv.turns.ended(tn.native)
	for _, s := range cv.subagents.leave(tn) {
		cv.place(s)
	}
	left, denials := cv.questions.leave(tn, cv.subagents.running)
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

// place decides which turn shows what a subagent does next: the one in flight
// if the subagent was started in it, or if its call is not known yet; else a
// background turn.
func (cv *conversation) place(s *subagentTurn) {
	if main := cv.turns.current(); main != nil && (s.agent.turn == main.id || s.agent.turn == "") {
		s.nest(cv.out.ForTurn(main.id), main)
		return
	}
	s.detach(cv.out.ForTurn(derive(cv.thread + " background " + s.native)))
	s.out.Emit(cv.started())
}

// interrupted takes note that we asked for the end of a native turn.
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

// mainOf is the turn of the conversation that a native turn is shown in, or
// nil.
func (cv *conversation) mainOf(native string) *turn {
	if s := cv.subagents.running[native]; s != nil {
		return s.main
	}
	return cv.turns.running[native]
}

// commandEnded takes the end of a command that outlived its turn: its whole
// output is a turn of its own.
func (cv *conversation) commandEnded(c *piece, it item) {
	out := cv.out.ForTurn(derive(cv.thread + " background " + it.ID))
	out.Emit(cv.started())
	out.Notice(event.LevelInfo, "TASK_ENDED", "A command in the background has ended: "+oneLine(c.title, 300))
	is := newItems(&line{next: 1})
	is.place(out, "")
	is.whole(it)
	out.Emit(event.ResponseDone{Status: event.StatusCompleted})
}

// itemStarted takes an item that is not whole yet.
func (cv *conversation) itemStarted(n note) {
	r := cv.runOf(n)
	if r == nil || n.Item == nil || r.pieces[n.Item.ID] != nil {
		cv.out.Skip()
		return
	}
	r.progressed()
	cv.begins(r, *n.Item)
}

// itemCompleted takes an item that is whole.
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
		cv.out.Skip() // of a turn that was interrupted, as a rule
		return
	}
	cv.whole(r, *n.Item)
}

// begins passes an item that is not whole yet to its turn.
func (cv *conversation) begins(r *run, it item) {
	if it.Type != "subAgentActivity" || cv.subagents.acts(r, it) {
		r.begins(it)
	}
}

// whole passes an item that is whole to its turn.
func (cv *conversation) whole(r *run, it item) {
	if it.Type != "subAgentActivity" || cv.subagents.acts(r, it) {
		r.whole(it)
	} else if c := r.pieces[it.ID]; c != nil && !c.call {
		c.done = true // nothing of it was shown; a call goes on until acts ends it
	}
}

// turnToAsk returns the id of the turn in which a question is asked. One of a
// subagent while no turn runs has a turn that holds nothing else.
func (cv *conversation) turnToAsk(q question, request jsonrpc.ID) (id string, outOfTurn bool) {
	cv.runOf(note{ThreadID: q.ThreadID, TurnID: q.TurnID})
	if tn := cv.turns.running[q.TurnID]; tn != nil {
		return tn.id, false
	}
	if tn := cv.turns.current(); tn != nil {
		return tn.id, false
	}
	after := ""
	if q.TurnID == "" && len(cv.turns.over) > 0 {
		after = cv.turns.over[len(cv.turns.over)-1]
	}
	id = derive(cv.thread + " question " + q.TurnID + after + " " + request.Key())
	cv.out.Emit(id, cv.started())
	return id, true
}

// calling returns the call that a question is about, or nil.
func (cv *conversation) calling(q question) *piece {
	r := cv.running(q.TurnID)
	if r == nil {
		return nil
	}
	if c := r.pieces[q.ItemID]; c != nil && c.called {
		return c
	}
	if q.Server != "" { // it names the server only
		for _, c := range r.inOrder() {
			if c.call && !c.done && strings.HasPrefix(c.name, "mcp__"+q.Server+"__") {
				return c
			}
		}
	}
	return nil
}
