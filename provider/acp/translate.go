package acp

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// translator converts the lines between Runnel and one agent process to events.
// It decodes a line and dispatches it to the component that owns the affected
// state, such as session or turns. That component emits the events.
//
// The translation is deterministic: the same lines in the same order give the
// same events with the same ids. It is used for live conversations, for
// recordings, and for conversations that the agent replays.
//
// A turn starts when Runnel sends its prompt. It ends with the answer to the
// prompt or, in version 2 of the protocol, when the agent reports that it is
// idle. Items are numbered within the turn: the native messages and tool calls
// of a thread from 1, the blocks of one message from 0. The id of an output is
// the id of its call followed by ":output". The field Native contains native
// ids; they are not used as keys.
type translator struct {
	*translate.Skips

	out           translate.Emitter
	peer          jsonrpc.Peer
	requests      map[string]request // unanswered requests to the agent, by the keys of their ids
	session       session
	turns         turns
	replay        *replay // not nil while the agent replays a conversation
	outOfTurnText outOfTurnText
}

func newTranslator(a Agent) *translator {
	t := &translator{requests: make(map[string]request), session: newSession(a)}
	t.Skips = &t.out.Skips
	t.turns = turns{emitter: &t.out, session: &t.session}
	return t
}

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return nil // happens only with a damaged recording
	}
	t.out.Begin(at)
	t.peer.Sent(m)
	switch m.Kind() {
	case jsonrpc.Request:
		t.sentRequest(m)
	case jsonrpc.Notification:
		if m.Method == methodCancel {
			t.turns.interrupt()
		}
	case jsonrpc.Response:
		t.turns.decided(m)
	}
	return t.out.Take()
}

// Printed implements [agentconn.Translator].
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.out.Begin(at)
	t.out.EmitDeferred()
	if t.grow(line) {
		return t.out.Results()
	}
	if m, err := jsonrpc.Decode(line); err != nil {
		t.turns.out().Emit(t.out.SkipLine())
	} else {
		t.message(m)
	}
	return t.out.Results()
}

// Flush implements [agentconn.Translator].
func (t *translator) Flush() []event.Event {
	t.out.EmitDeferred()
	t.outOfTurnText.flush(t.turns.out())
	if t.replay != nil && t.replay.show {
		t.endReplay()
	}
	return t.out.Take()
}

// sentRequest dispatches a request to the agent.
func (t *translator) sentRequest(m jsonrpc.Message) {
	if id := turnOf(m); id != "" {
		t.requests[m.ID.Key()] = request{Method: methodPrompt}
		t.turns.prompt(id, m)
		return
	}
	r, replays := requestOf(m)
	t.requests[m.ID.Key()] = r
	if m.Method == methodLoad || m.Method == methodResume {
		t.session.id = r.Session
	}
	if m.Method == methodTitle && r.Value != untitled {
		t.session.untitled = false
	}
	if replays {
		t.replay = &replay{show: m.ID.Same(jsonrpc.String(historyID))}
	}
}

// message dispatches a message of the agent.
func (t *translator) message(m jsonrpc.Message) {
	verdict, call := t.peer.Got(m)
	switch verdict {
	case jsonrpc.Notified:
		t.notification(m)
	case jsonrpc.Asked:
		t.request(m)
	case jsonrpc.AskedAgain:
		t.turns.askedAgain(m)
	case jsonrpc.Answered:
		t.response(call, m)
	case jsonrpc.Withdrawn:
		t.turns.withdrawn(call.ID)
	case jsonrpc.Overrun:
		reply(&t.out, jsonrpc.Overloaded(m))
	case jsonrpc.Stray:
		t.out.Skip()
	}
}

// request dispatches a request of the agent. It rejects unsupported requests,
// such as those for files and terminals, at once. Otherwise the agent would
// wait forever for an answer.
func (t *translator) request(m jsonrpc.Message) {
	switch m.Method {
	case methodPermission, methodElicit:
		t.question(m)
	default:
		if !strings.HasPrefix(m.Method, "fs/") && !strings.HasPrefix(m.Method, "terminal/") && m.Method != "craft/drainMidTurnQueue" {
			t.out.SkipUnknown(m.Method)
		}
		reply(&t.out, jsonrpc.Unsupported(m))
	}
}

// response dispatches the answer to a request to the agent.
func (t *translator) response(call jsonrpc.Call, m jsonrpc.Message) {
	t.outOfTurnText.flush(t.turns.out())
	r := t.requests[call.ID.Key()]
	delete(t.requests, call.ID.Key())
	switch r.Method {
	case methodInitialize:
		t.session.initialized(m)
	case methodNew, methodFork, methodLoad, methodResume:
		if f := t.session.q.live.costContinues; f != nil && r.Method != methodNew {
			t.turns.costUnknown = f(t.session.release)
		}
		t.session.untitled = t.session.q.startup.titles && m.Error == nil && r.Method != methodResume && (t.replay == nil || !t.replay.show)
		if t.replay != nil && t.replay.answered(m, t.session.q) {
			t.endReplay()
		}
		t.session.opened(t.turns.out(), r, m)
	case methodSetMode, methodSetModel, methodSetConfig:
		t.session.settings.changed(t.turns.out(), r, m)
	case methodTitle:
		t.titleAnswered(r, m)
	case methodPrompt:
		id, _ := call.ID.Text()
		t.turns.answered(strings.TrimPrefix(id, promptID), m)
	}
}

// notification dispatches a notification of the agent.
func (t *translator) notification(m jsonrpc.Message) {
	switch m.Method {
	case methodUpdate:
	case "_auth/status_update", "qwen/notify/session/mode-update", "qwen/notify/session/prompt-suggestion":
		t.out.Skip()
		return
	default:
		t.out.SkipUnknown(m.Method)
		return
	}
	n := translate.DecodeLenient[notified](m.Params)
	u := updateOf(n.Update)
	if t.session.isOther(n.SessionID) && t.session.id != "" {
		if other := nativeID(n.SessionID); t.subagentRuns(other) {
			t.item(u, other)
		}
		return
	}
	if u.Kind != "agent_message_chunk" {
		t.outOfTurnText.flush(t.turns.out())
	}
	t.update(u)
}

// updateOf decodes an update.
func updateOf(raw json.RawMessage) update {
	u := translate.DecodeLenient[update](raw)
	u.toolCall.raw = raw
	u.ID, u.MessageID, u.TerminalID = nativeID(u.ID), nativeID(u.MessageID), nativeID(u.TerminalID)
	return u
}

// subagentRuns reports whether session is the conversation of a running
// subagent. If not, it counts the message as skipped.
func (t *translator) subagentRuns(session string) bool {
	if tn := t.turns.now; tn != nil && tn.calls.isOpen(session) {
		return true
	}
	t.out.Skip()
	return false
}

// update dispatches an update of the conversation.
func (t *translator) update(u update) {
	out := t.turns.out()
	switch u.Kind {
	case "available_commands_update":
		t.session.setCommands(out, u.Commands)
		if t.replay != nil && t.replay.late {
			t.endReplay()
		}
	case "current_mode_update":
		t.session.settings.set(out, "mode", u.ModeID)
	case "config_option_update":
		t.session.settings.offered(out, opened{ConfigOptions: u.ConfigOptions})
	case "session_info_update":
		t.session.setTitle(out, u.Title)
	case "usage_update":
		if tn := t.turns.now; tn != nil && t.session.q.live.inputGrows {
			tn.calls.describeAll()
		}
		t.turns.usageUpdated(u, t.replay == nil)
	case "notice":
		notice(out, u)
	case "compaction_update":
		if u.Status == "completed" {
			out.Emit(translate.Compacted)
		}
	case "state_update":
		if t.replay == nil {
			t.turns.state(u)
		}
	default:
		t.item(u, "")
	}
}

// item dispatches an update that belongs to a turn. parent is the id of the
// subagent's conversation that sent it, or "" for the main agent.
func (t *translator) item(u update, parent string) {
	if t.replay != nil && !t.replay.take(u, &t.turns) {
		return
	}
	tn := t.turns.now
	if tn == nil {
		t.outOfTurn(u)
		return
	}
	switch u.Kind {
	case "user_message_chunk", "user_message": // an echo of the prompt
	case "agent_message_chunk":
		t.chunk(event.TypeMessage, textOfUpdate(u), parent)
	case "agent_thought_chunk":
		t.chunk(event.TypeReasoning, textOfUpdate(u), parent)
	case "agent_message":
		t.whole(event.TypeMessage, u, parent)
	case "agent_thought":
		t.whole(event.TypeReasoning, u, parent)
	case "tool_call":
		t.call(u, fromCall, parent)
	case "tool_call_update":
		t.call(u, fromUpdate, parent)
	case "tool_call_content_chunk":
		tn.calls.addContent(u)
	case "terminal_update", "terminal_output_chunk":
		if u.TerminalID != "" {
			t.turns.startedTurn().calls.terminal(u)
		}
	case "plan":
		t.turns.startedTurn().plan(u.Entries)
	case "plan_update":
		if u.Plan.Type == "items" {
			t.turns.startedTurn().plan(u.Plan.Entries)
		}
	case "subagent_update":
		if d := translate.DecodeLenient[subagent](u.toolCall.raw); d.SessionID != "" {
			d.SessionID = nativeID(d.SessionID)
			t.turns.startedTurn().subagent(d, parent)
		}
	case "available_commands_update", "current_mode_update", "config_option_update", "session_info_update", "usage_update", "notice",
		"compaction_update", "state_update": // of a subagent's conversation
		t.out.Skip()
	default:
		t.out.SkipUnknown(methodUpdate + "/" + u.Kind)
	}
}

// call dispatches an update of a tool call.
func (t *translator) call(u update, from origin, parent string) {
	if u.ID == "" {
		t.out.Skip()
		return
	}
	t.turns.startedTurn().calls.update(u.toolCall, from, parent)
}

// endReplay ends a replay and its last turn.
func (t *translator) endReplay() {
	if t.replay.show {
		t.replay.end(&t.turns)
	}
	t.replay = nil
}
