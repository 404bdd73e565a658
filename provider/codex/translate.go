package codex

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// providerID identifies this provider in events.
const providerID = "codex"

// translator translates the lines between Runnel and one app-server to events.
//
// It is pure: the same lines in the same order give the same events with the
// same ids. Its whole state comes from the lines, including the lines that
// Runnel sends. For instance, the id of the request that begins a turn contains
// the turn's id.
//
// Each line is decoded and dispatched to the one part that owns the state in
// question. That part emits the events. Parts do not call each other: a part
// returns its effects on other parts, and the translator or the conversation
// applies them.
type translator struct {
	*translate.Skips

	conversation
	peer     jsonrpc.Peer
	limits   limits
	warnings warnings
	grown    note // ids of the item that last grew, see scanGrowth
}

func newTranslator() *translator {
	out := new(translate.Emitter)
	return &translator{Skips: &out.Skips, conversation: newConversation(out), warnings: newWarnings()}
}

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return nil // only a damaged recording contains such a line
	}
	t.out.Begin(at)
	switch m.Kind() {
	case jsonrpc.Request:
		t.requested(m)
	case jsonrpc.Response:
		if a, choice, ok := t.questions.decided(m); ok && choice == translate.DenyStop {
			t.interrupted(a.native)
		}
	}
	t.peer.Sent(m)
	return t.out.Take()
}

// Printed implements [agentconn.Translator].
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.out.Begin(at)
	if t.grow(line) {
		return t.out.Results()
	}
	m, err := jsonrpc.Decode(line)
	if line == nil || err != nil {
		t.notice(t.out.SkipLine())
	} else {
		t.message(m)
	}
	return t.out.Results()
}

// Flush implements [agentconn.Translator].
func (t *translator) Flush() []event.Event { return t.out.Take() }

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return t.questions.IDs() }

// About implements [agentconn.Translator].
func (*translator) About(line []byte) agentconn.About {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return agentconn.About{}
	}
	switch m.Kind() {
	case jsonrpc.Request:
		name, _ := m.ID.Text()
		prompt, ok := strings.CutPrefix(name, turnPrefix)
		if !ok {
			prompt = ""
		}
		return agentconn.About{Prompt: prompt, Settles: "request " + m.ID.Key(), Interrupt: m.Method == methodInterrupt}
	case jsonrpc.Response:
		return agentconn.About{Settles: "answer " + m.ID.Key()}
	}
	return agentconn.About{}
}

// message dispatches a message from the agent.
func (t *translator) message(m jsonrpc.Message) {
	verdict, call := t.peer.Got(m)
	switch verdict {
	case jsonrpc.Notified:
		t.notified(m)
	case jsonrpc.Asked:
		t.asked(m)
	case jsonrpc.AskedAgain:
		if reply, due := t.questions.askedAgain(m); due {
			t.reply(reply, nil)
		}
	case jsonrpc.Answered:
		t.answered(call, m)
	case jsonrpc.Overrun:
		t.reply(jsonrpc.Overloaded(m), nil)
	default:
		t.out.Skip()
	}
}

// notified dispatches a notification.
func (t *translator) notified(m jsonrpc.Message) {
	n := translate.DecodeLenient[note](m.Params)
	switch m.Method {
	case "turn/started":
		if n.Turn != nil {
			t.begin(n.ThreadID, n.Turn.ID)
		}
	case "turn/completed":
		if n.Turn != nil {
			for _, request := range t.complete(n) {
				t.peer.Forget(request)
			}
		}
	case "item/started":
		t.itemStarted(n)
	case "item/completed":
		t.itemCompleted(n)
	case "item/agentMessage/delta", "item/plan/delta", "item/commandExecution/outputDelta",
		"item/reasoning/summaryTextDelta", "item/reasoning/summaryPartAdded", "item/reasoning/textDelta":
		t.extend(m.Method, n)
	case "turn/plan/updated":
		if r := t.runOf(n); r != nil {
			r.planned(n)
		}
	case "error":
		if r := t.runOf(n); r != nil && n.Error != nil {
			r.failed(*n.Error, n.WillRetry)
		}
	case "thread/tokenUsage/updated":
		if n.Usage != nil && n.ThreadID == t.thread {
			t.turns.used(n.TurnID, *n.Usage)
		}
	case "thread/started":
		if n.Thread != nil && n.Thread.ID != t.thread && n.Thread.ParentID != "" {
			t.subagents.add(n.Thread.ID)
		}
	case "serverRequest/resolved":
		t.peer.Forget(n.Request)
		t.questions.withdrawn(n.Request)
	default:
		t.sessionNotified(m, n)
	}
}

// sessionNotified dispatches a notification about the conversation or the
// account.
func (t *translator) sessionNotified(m jsonrpc.Message, n note) {
	switch m.Method {
	case "thread/settings/updated":
		if n.Settings != nil && n.ThreadID == t.thread {
			t.settings(t.config.update(*n.Settings))
		}
	case "thread/name/updated":
		if title := oneLine(n.Name, 200); n.ThreadID == t.thread && title != "" {
			t.out.Emit("", event.SessionUpdated{Title: title})
		}
	case "account/rateLimits/updated":
		if limit, changed := t.limits.update(n.Limits); changed {
			t.out.Emit(t.turns.currentID(), event.UsageUpdated{RateLimit: &limit})
		}
	case "warning", "configWarning", "guardianWarning", "deprecationNotice":
		if text := t.warnings.take(m.Method, n); text != "" {
			t.notice(translate.AgentNotice(event.LevelWarning, text))
		}
	case "model/rerouted":
		t.notice(event.Notice{Level: event.LevelWarning, Code: "MODEL_FALLBACK", Message: "The agent continues with another model: " + oneLine(n.ToModel, 200) + "."})
	case "thread/status/changed", "item/mcpToolCall/progress", "mcpServer/startupStatus/updated", "item/commandExecution/terminalInteraction":
	case "thread/goal/cleared":
		t.out.Skip()
	default:
		t.out.SkipUnknown(m.Method)
	}
}

// requested processes a request that Runnel sends.
func (t *translator) requested(m jsonrpc.Message) {
	name, _ := m.ID.Text()
	switch {
	case m.Method == methodInitialize:
		t.process = strings.TrimPrefix(name, processPrefix)
	case m.Method == methodTurn && strings.HasPrefix(name, turnPrefix):
		t.turns.promptSent(strings.TrimPrefix(name, turnPrefix), translate.DecodeLenient[turnParams](m.Params).Input)
	case m.Method == methodInterrupt:
		native := translate.DecodeLenient[note](m.Params).TurnID
		t.turns.interruptSent(name, native)
		if tn := t.turns.running[native]; tn != nil {
			for _, a := range t.questions.Of(tn.id) {
				tn.out.Emit(translate.Cancelled(a.ID))
			}
		}
	}
	t.config.requested(name)
}

// answered processes the agent's response to a request.
func (t *translator) answered(c jsonrpc.Call, m jsonrpc.Message) {
	name, _ := c.ID.Text()
	switch c.Method {
	case methodStart, methodResume, methodFork:
		if m.Error == nil { // the handshake reports an error
			if c.Method == methodStart {
				t.turns.total = &tokens{} // a resumed conversation continues its count
			}
			t.opened(translate.DecodeLenient[opened](m.Result), c.Method == methodResume)
		}
	case methodTurn:
		t.accepted(strings.TrimPrefix(name, turnPrefix), m)
	case methodModels:
		t.config.offered(m.Result)
		if t.thread != "" {
			t.out.Emit(t.turns.currentID(), event.SessionUpdated{Config: t.config.options()})
		}
	case methodSettings:
		if m.Error != nil {
			t.notice(event.Notice{Level: event.LevelWarning, Code: "OPTION_REFUSED", Message: "The agent refused to change its settings."})
		}
	case methodInterrupt:
		if tn := t.turns.interruptRejected(name); m.Error != nil && tn != nil {
			if tn.stops >= maxInterrupts || !strings.HasPrefix(m.Error.Message, notYetActive) {
				tn.out.Emit(translate.InterruptRefused)
			}
			t.stop(tn)
		}
	}
}

// outgoing encodes a message for sending. Its parameters are the results of the
// functions that make messages.
func outgoing(m jsonrpc.Message, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return jsonrpc.Encode(m, false)
}
