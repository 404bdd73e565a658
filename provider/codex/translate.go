package codex

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// providerID is how events name this provider.
const providerID = "codex"

// translator turns what passes between us and one app-server into events.
//
// It is pure: lines go in, in the order in which they passed, and events come
// out; the same lines give the same events with the same ids. All that it knows
// it has from lines, ours included: the request that begins a turn is named
// after it, an interrupt that comes too early is in a line as well.
//
// A turn begins when the agent says so and ends when it says that, too. Items
// are numbered within it, from 1, in the order in which they start. The output
// of a call has the id of the call followed by ":output".
type translator struct {
	at      time.Time // of the line in hand
	events  []event.Event
	replies []any // what must be written at once, without asking anyone

	peer      jsonrpc.Peer
	thread    string           // of the conversation; a process has those of subagents beside it
	waiting   []string         // turns of ours whose begin was not confirmed
	turns     map[string]*turn // by the agent's id, until they are over
	over      []string         // turns that are over, the last maxOver
	early     bool             // an interrupt was sent for the turn that begins next
	approvals map[string]*approval
	asides    []*turn           // that held a question which was answered
	behind    map[string]*piece // commands that outlived their turn, by the agent's ids of that and of them
	agents    map[string]*agent
	config    settings
	modes     int             // requests of ours for a mode
	total     *tokens         // of the thread, as last told
	limit     event.RateLimit // as last told
	announced bool            // the conversation's id was told
	warnings  map[string]bool
	fatal     string // why a conversation must not begin, if the agent's configuration is at fault
	skipped   int    // what means nothing to us
}

// maxOver is how many turns that are over are known, so that what comes late is
// not taken for the begin of another.
const maxOver = 256

// turn is the state of a turn in flight.
type turn struct {
	native      string
	id          string
	prefix      string // of its items' ids
	agent       *agent // whose turn it is; nil: the conversation's own
	main        *turn  // of an agent: the turn that shows it
	parent      string // of an agent: the call that started it
	began       bool   // the agent said so
	interrupted bool   // we asked for its end
	stops       int    // interrupts that we sent of our own accord
	items       map[string]*piece
	next        int     // ordinal of the item that starts next
	base        *tokens // used before it
	used        tokens
	counted     bool // used is known
	failure     *turnError
	told        int    // notices of retries without anything between them
	retry       string // the last of them
	plans       int
	prompt      string // the agent's id of the prompt, where it has no id of ours
}

func newTranslator() *translator {
	return &translator{
		turns: make(map[string]*turn), approvals: make(map[string]*approval), behind: make(map[string]*piece), agents: make(map[string]*agent),
		warnings: make(map[string]bool),
	}
}

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return nil // ours always decode; a damaged recording may not
	}
	t.at = at
	switch m.Kind() {
	case jsonrpc.Request:
		t.requested(m)
	case jsonrpc.Response:
		t.decided(m)
	}
	t.peer.Sent(m)
	return t.take()
}

// Printed implements [agentconn.Translator].
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.at = at
	m, err := jsonrpc.Decode(line)
	if line == nil || err != nil {
		t.notice(event.LevelWarning, "UNDECODABLE_LINE", "The agent printed a line that is not in its protocol; it was left out.")
	} else {
		t.message(m)
	}
	replies := t.replies
	t.replies = nil
	return t.take(), replies
}

func (t *translator) take() []event.Event {
	evs := t.events
	t.events = nil
	return evs
}

// message dispatches what the agent said.
func (t *translator) message(m jsonrpc.Message) {
	verdict, call := t.peer.Got(m)
	switch verdict {
	case jsonrpc.Heard:
		t.notified(m.Method, loose[note](m.Params), m)
	case jsonrpc.Asked:
		t.ask(m)
	case jsonrpc.AskedAgain:
		t.asksAgain(m)
	case jsonrpc.Answered:
		t.answered(call, m)
	case jsonrpc.Overrun:
		t.reply(jsonrpc.Refuse(m))
	default:
		t.skipped++
	}
}

// reply has a message written at once.
func (t *translator) reply(m jsonrpc.Message) {
	if line, err := outgoing(m, nil); err == nil {
		t.replies = append(t.replies, line)
	}
}

// request has a request written at once. name must be unique and is its id.
func (t *translator) request(name, method string, params any) {
	if line, err := outgoing(jsonrpc.NewRequest(jsonrpc.String(name), method, params)); err == nil {
		t.replies = append(t.replies, line)
	}
}

// About implements [agentconn.Translator].
func (*translator) About(line []byte) agentconn.About {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return agentconn.About{}
	}
	switch m.Kind() {
	case jsonrpc.Request:
		name, _ := m.ID.Text()
		prompt, _ := strings.CutPrefix(name, turnPrefix)
		if prompt == name {
			prompt = ""
		}
		return agentconn.About{Prompt: prompt, Settles: "request " + m.ID.Key()}
	case jsonrpc.Response:
		return agentconn.About{Settles: "answer " + m.ID.Key()}
	}
	return agentconn.About{}
}

// notified takes a notification.
func (t *translator) notified(method string, n note, m jsonrpc.Message) {
	switch method {
	case "turn/started":
		t.begin(n)
	case "turn/completed":
		t.complete(n)
	case "item/started":
		t.itemStarted(n)
	case "item/completed":
		t.itemCompleted(n)
	case "item/agentMessage/delta", "item/plan/delta", "item/commandExecution/outputDelta",
		"item/reasoning/summaryTextDelta", "item/reasoning/summaryPartAdded", "item/reasoning/textDelta":
		t.delta(method, n)
	case "turn/plan/updated":
		t.planned(n)
	case "thread/tokenUsage/updated":
		t.counted(n)
	case "account/rateLimits/updated":
		t.limited(n)
	case "thread/settings/updated":
		t.settingsUpdated(n)
	case "thread/name/updated":
		t.named(n)
	case "serverRequest/resolved":
		t.withdraw(n.Request)
	case "error":
		t.failed(n)
	case "warning", "configWarning", "guardianWarning", "deprecationNotice":
		t.warned(method, n)
	case "model/rerouted":
		t.notice(event.LevelWarning, "MODEL_FALLBACK", "The agent goes on with another model: "+oneLine(n.ToModel, 200)+".")
	case "thread/started":
		t.threadStarted(n)
	case "thread/status/changed", "item/mcpToolCall/progress", "mcpServer/startupStatus/updated", "item/commandExecution/terminalInteraction":
	default:
		t.peer.Unknown(m)
		t.skipped++
	}
}

// emit adds an event to a turn; nil stands for none.
func (t *translator) emit(tn *turn, b event.Body) {
	id := ""
	if tn != nil {
		id = tn.shown().id
	}
	ev := event.Event{At: t.at, Turn: id, Body: b}
	if tn != nil && tn.agent != nil && tn.agent.aside == tn.main {
		tn.agent.hold(ev)
		return
	}
	t.events = append(t.events, ev)
}

// shown is the turn that events go to: that of a subagent is part of another.
func (tn *turn) shown() *turn {
	if tn.main != nil {
		return tn.main
	}
	return tn
}

// notice adds a notice to the turn in flight, if there is one.
func (t *translator) notice(level event.Level, code, message string) {
	t.emit(t.current(), event.Notice{Level: level, Code: code, Message: message})
}

// current is the turn of the conversation that runs, or nil.
func (t *translator) current() *turn {
	for _, tn := range t.turns {
		if tn.began && tn.agent == nil {
			return tn // there is one at a time
		}
	}
	return nil
}

// Names of our requests.
const (
	turnPrefix      = "turn:"      // and the id of the turn
	modePrefix      = "mode:"      // and the permission mode, and a number
	interruptPrefix = "interrupt:" // and the agent's id of the turn, and a number
	cleanPrefix     = "clean:"     // and the agent's id of the turn
)

// requested takes a request of ours.
func (t *translator) requested(m jsonrpc.Message) {
	switch name, _ := m.ID.Text(); {
	case m.Method == methodTurn && strings.HasPrefix(name, turnPrefix):
		t.prompted(strings.TrimPrefix(name, turnPrefix), loose[turnParams](m.Params))
	case m.Method == methodInterrupt:
		t.stopping(name, loose[note](m.Params).TurnID)
	}
	t.configured(m)
}

// prompted takes a prompt of ours. The turn's id is in the request's.
func (t *translator) prompted(id string, p turnParams) {
	t.waiting = append(t.waiting, id)
	t.userMessage(id, id+":0:0", p.Input)
}

func (t *translator) userMessage(turnID, itemID string, in []userInput) {
	text, files := spoken(in)
	for _, b := range []event.Body{
		event.ItemStart{ItemID: itemID, ItemType: event.TypeMessage},
		event.ItemDone{ItemID: itemID, FinalItem: event.Message{Content: text, Origin: event.OriginUser, Attachments: files}},
	} {
		t.events = append(t.events, event.Event{At: t.at, Turn: turnID, Body: b})
	}
}

// bind gives the turn with the agent's id native its place: it answers our
// oldest prompt, or nobody asked for it and it is named after that id.
func (t *translator) bind(native, id string) *turn {
	tn := &turn{native: native, id: id, items: make(map[string]*piece), next: 1, base: t.total}
	if id == "" && len(t.waiting) > 0 {
		tn.id = t.waiting[0]
	}
	for i, w := range t.waiting {
		if w == tn.id {
			t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
			break
		}
	}
	if tn.id == "" {
		tn.id = derive(t.thread + " turn " + native)
	}
	tn.prefix = tn.id + ":"
	t.turns[native] = tn
	return tn
}

// begin takes the begin of a turn.
func (t *translator) begin(n note) {
	if n.Turn == nil || n.Turn.ID == "" || t.isOver(n.Turn.ID) {
		return
	}
	if n.ThreadID != t.thread {
		t.beginInside(n)
		return
	}
	tn := t.turns[n.Turn.ID]
	if tn == nil {
		tn = t.bind(n.Turn.ID, "")
	}
	if tn.began {
		return
	}
	tn.began = true
	if !t.announced { // before its first turn there is nothing to resume
		t.announced = true
		t.emit(nil, event.SessionUpdated{AgentSessionID: t.thread})
	}
	t.emit(tn, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
	if t.early || tn.interrupted {
		tn.interrupted, t.early = true, false
		t.interrupt(tn)
	}
}

// turnOf is the turn that a notification is about: one that runs, and begins
// it if we missed that. It is nil for one that is over.
func (t *translator) turnOf(n note) *turn {
	if tn := t.turns[n.TurnID]; tn != nil && tn.began {
		return tn
	}
	if n.TurnID == "" || n.ThreadID == "" || t.isOver(n.TurnID) {
		return nil
	}
	n.Turn = &nativeTurn{ID: n.TurnID}
	t.begin(n)
	return t.turns[n.TurnID]
}

func (t *translator) isOver(native string) bool {
	for _, id := range t.over {
		if id == native {
			return true
		}
	}
	return false
}

// answered takes the agent's answer to a request of ours.
func (t *translator) answered(c jsonrpc.Call, m jsonrpc.Message) {
	name, _ := c.ID.Text()
	switch c.Method {
	case methodStart, methodResume, methodFork:
		t.opened(c.Method, m)
	case methodTurn:
		t.accepted(strings.TrimPrefix(name, turnPrefix), m)
	case methodModels:
		t.models(m)
	case methodSettings:
		if m.Error != nil {
			t.notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change its settings.")
		}
	case methodInterrupt:
		if m.Error != nil {
			t.notStopped(name)
		}
	}
}

// opened takes the answer that makes a conversation.
func (t *translator) opened(method string, m jsonrpc.Message) {
	if m.Error != nil {
		return // whoever waits for it says so
	}
	o := loose[opened](m.Result)
	t.thread = o.Thread.ID
	t.config.opened(o)
	var u event.SessionUpdated
	if method == methodResume {
		t.announced, u.AgentSessionID = true, t.thread
	}
	u.ModelID, u.PermissionMode, u.Config = t.config.Model, t.config.Mode, t.config.options()
	u.Title = oneLine(o.Thread.Name, 200)
	t.emit(nil, u)
	t.warnOfBypass()
}

// accepted takes the answer to a prompt.
func (t *translator) accepted(id string, m jsonrpc.Message) {
	if m.Error != nil {
		for i, w := range t.waiting {
			if w == id {
				t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
				if _, soon := t.soon(); !soon {
					t.early = false // it was for this one
				}
				t.events = append(t.events, event.Event{At: t.at, Turn: id, Body: event.ResponseError{Error: refused(m.Error)}})
				return
			}
		}
		return
	}
	var r struct{ Turn nativeTurn }
	if json.Unmarshal(m.Result, &r) != nil || r.Turn.ID == "" || t.isOver(r.Turn.ID) {
		return
	}
	if tn := t.turns[r.Turn.ID]; tn != nil {
		if tn.id != id && tn.began {
			t.joined(tn, id)
		}
		return
	}
	t.bind(r.Turn.ID, id)
}

// joined takes the news that a prompt went into a turn that nobody asked for
// and that ran already: from here on that turn is the prompt's.
func (t *translator) joined(tn *turn, id string) {
	t.close(tn, "joined")
	t.emit(tn, event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
	again := t.bind(tn.native, id)
	again.began, again.base = true, t.total
	t.emit(again, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
}

// Gone implements [agentconn.Translator].
func (t *translator) Gone() []event.Event { return t.take() }

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string {
	var ids []string
	for id := range t.approvals {
		ids = append(ids, id)
	}
	return sorted(ids)
}

// named takes the title of the conversation.
func (t *translator) named(n note) {
	if title := oneLine(n.Name, 200); n.ThreadID == t.thread && title != "" {
		t.emit(nil, event.SessionUpdated{Title: title})
	}
}
