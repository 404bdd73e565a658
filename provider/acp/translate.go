package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// translator turns what passes between us and one agent process into events.
//
// It is pure: lines go in, in the order in which they passed, and events come
// out; the same lines give the same events with the same ids. It serves the
// live conversation, a recording of one, and one that the agent loads alike.
//
// A turn begins when its prompt is sent, and ends with the answer to that
// request, in version 2 when the agent says that it is idle. Items are numbered
// within it: the native messages and tool calls of a thread from 1, the blocks of
// one message from 0. The output of a call has the id of the call followed by
// ":output". Ids that the agent made are kept in Native and are not keys.
type translator struct {
	q        *quirks
	agent    agentconn.Agent
	login    string // command that logs in
	provider string

	at      time.Time // of the line in hand
	events  []event.Event
	replies []any // what must be answered at once, without asking anyone

	peer      jsonrpc.Peer
	asked     map[string]asked     // our open requests, by the key of their ids
	turn      *turn                // the one in flight
	waiting   []string             // turns whose prompts were sent while it was
	load      *loading             // while the agent replays a conversation
	child     string               // the subagent whose update is in hand
	approvals map[string]*approval // open ones by our id
	late      []event.Event        // to be told with the agent's next line
	aside     strings.Builder      // said while no turn was in flight

	point
	skipped int    // what means nothing to us
	version string // of the agent, as it says
}

// asked is a request of ours that was not answered yet.
type asked struct {
	Method  string
	Session string `json:",omitzero"` // that it is about
	Option  string `json:",omitzero"` // that it changes
	Value   string `json:",omitzero"`
}

// point is what a translator that begins between two turns has to know of what
// came before.
type point struct {
	Version     int                  `json:",omitzero"`
	Caps        caps                 `json:",omitzero"`
	Session     string               `json:",omitzero"`
	Config      []event.ConfigOption `json:",omitzero"`
	Legacy      map[string]string    `json:",omitzero"` // methods that set what is no config option, by its id
	Model, Mode string               `json:",omitzero"` // as last told
	Title       string               `json:",omitzero"`
	Commands    []event.AgentCommand `json:",omitzero"`
	Cost        float64              `json:",omitzero"` // of the conversation, as the agent counts it
	Used        usage                `json:",omitzero"` // likewise, where it does
	Unasked     int                  `json:",omitzero"` // turns that nobody asked for
	Said        string               `json:",omitzero"` // the agent's id of the last message of the last turn
}

// state is a point and what else goes on between two turns.
type state struct {
	point
	Peer  jsonrpc.Peer
	Asked map[string]asked `json:",omitzero"`
	Aside string           `json:",omitzero"`
}

// turn is the state of a turn in flight.
type turn struct {
	id          string
	asked       bool // it answers a prompt of ours
	begun       bool // v2: the agent said that it works on it
	started     bool // its ResponseStart is out
	interrupted bool // we asked the agent to stop
	refused     bool // the agent was told no in a way that ends its turn
	threads     map[string]*thread
	calls       map[string]*call
	terms       map[string]*terminal
	cost        float64 // of the conversation when it began
	said        string  // text of the last message
	saidID      string  // the agent's id of it
}

func newTranslator(a Agent) *translator {
	return &translator{
		q: a.quirks(), agent: a.conn(), login: a.Login, provider: a.Name,
		asked: make(map[string]asked), approvals: make(map[string]*approval),
		point: point{Version: 1},
	}
}

func newTurn(id string) *turn {
	return &turn{id: id, threads: make(map[string]*thread), calls: make(map[string]*call), terms: make(map[string]*terminal)}
}

// Sent implements [agentconn.Translator].
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return nil // ours always decode; a damaged recording may not
	}
	t.at = at
	t.peer.Sent(m)
	switch m.Kind() {
	case jsonrpc.Request:
		t.requested(m)
	case jsonrpc.Notification:
		if m.Method == methodCancel && t.turn != nil {
			t.turn.interrupted = true
		}
	case jsonrpc.Response:
		t.decided(m)
	}
	return t.take()
}

// Printed implements [agentconn.Translator].
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.at = at
	t.events, t.late = append(t.events, t.late...), nil
	m, err := jsonrpc.Decode(line)
	if err != nil {
		t.notice(event.LevelWarning, "UNDECODABLE_LINE", "The agent printed a line that is not in its protocol; it was left out.")
	} else {
		t.message(m)
	}
	replies := t.replies
	t.replies = nil
	return t.take(), replies
}

// Gone implements [agentconn.Translator].
func (t *translator) Gone() []event.Event {
	t.events, t.late = append(t.events, t.late...), nil
	t.flushAside()
	if t.load != nil && t.load.show {
		t.endLoad()
	}
	return t.take()
}

// About implements [agentconn.Translator].
func (t *translator) About(line []byte) agentconn.About {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return agentconn.About{}
	}
	switch m.Kind() {
	case jsonrpc.Request:
		return agentconn.About{Prompt: turnOf(m)}
	case jsonrpc.Response:
		return agentconn.About{Settles: m.ID.Key()}
	}
	return agentconn.About{Settles: m.Method}
}

// Waiting implements [agentconn.Translator].
func (t *translator) Waiting() []string { return slices.Sorted(maps.Keys(t.approvals)) }

// Checkpoint implements [agentconn.Translator].
func (t *translator) Checkpoint() ([]byte, bool) {
	if t.turn != nil || t.load != nil || len(t.waiting)+len(t.approvals) > 0 {
		return nil, false
	}
	b, err := json.Marshal(state{t.point, t.peer, t.asked, t.aside.String()})
	return b, err == nil
}

// Restore implements [agentconn.Translator].
func (t *translator) Restore(saved []byte) error {
	var s state
	if err := json.Unmarshal(saved, &s); err != nil {
		return err
	}
	t.point, t.peer = s.point, s.Peer
	t.asked = make(map[string]asked)
	maps.Copy(t.asked, s.Asked)
	t.aside.Reset()
	t.aside.WriteString(s.Aside)
	return nil
}

func (t *translator) take() []event.Event {
	evs := t.events
	t.events = nil
	return evs
}

// emit adds an event: to the turn in flight if it has begun to answer.
func (t *translator) emit(b event.Body) {
	id := ""
	if t.turn != nil && t.turn.started {
		id = t.turn.id
	}
	t.events = append(t.events, event.Event{At: t.at, Turn: id, Body: b})
}

func (t *translator) notice(level event.Level, code, message string) {
	t.emit(event.Notice{Level: level, Code: code, Message: message})
}

// turnOf returns the turn that a request of ours begins.
func turnOf(m jsonrpc.Message) string {
	id, _ := m.ID.Text()
	turn, ok := strings.CutPrefix(id, promptID)
	if !ok || m.Method != methodPrompt {
		return ""
	}
	return turn
}

// requested takes a request of ours.
func (t *translator) requested(m jsonrpc.Message) {
	if id := turnOf(m); id != "" {
		t.prompted(id, m)
		return
	}
	p := decodeLoose[struct {
		SessionID  string `json:"sessionId"`
		ModeID     string `json:"modeId"`
		ModelID    string `json:"modelId"`
		ConfigID   string `json:"configId"`
		Value      any    `json:"value"`
		ReplayFrom any    `json:"replayFrom"`
	}](m.Params)
	a := asked{Method: m.Method, Session: p.SessionID}
	switch m.Method {
	case methodLoad, methodResume:
		id, _ := m.ID.Text()
		t.Session = p.SessionID
		if m.Method == methodLoad || p.ReplayFrom != nil {
			t.load = &loading{show: id == historyID}
		}
	case methodSetMode:
		a.Option, a.Value = "mode", p.ModeID
	case methodSetModel:
		a.Option, a.Value = "model", p.ModelID
	case methodSetConfig:
		a.Option, a.Value = p.ConfigID, configText(p.Value)
	}
	t.asked[m.ID.Key()] = a
}

// prompted takes a prompt of ours.
func (t *translator) prompted(id string, m jsonrpc.Message) {
	p := decodeLoose[struct {
		Prompt json.RawMessage `json:"prompt"`
	}](m.Params)
	t.userMessage(id, blocks(p.Prompt))
	t.asked[m.ID.Key()] = asked{Method: methodPrompt}
	if t.turn != nil && t.turn.asked {
		t.waiting = append(t.waiting, id)
		return
	}
	if t.turn != nil {
		before := t.events
		t.events = nil
		t.leave()
		t.late, t.events = t.events, before // as a line is sent, nobody listens
	}
	t.begin(id)
}

func (t *translator) begin(id string) {
	t.turn = newTurn(id)
	t.turn.asked, t.turn.cost = true, t.Cost
}

// leave ends a turn that nobody asked for and of whose end we were not told.
func (t *translator) leave() { t.end(event.ResponseDone{Status: event.StatusCompleted}) }

// running returns the turn in flight and announces it.
func (t *translator) running() *turn {
	tn := t.turn
	if tn != nil && !tn.started {
		tn.started = true
		t.emit(event.ResponseStart{ModelID: t.Model, ProviderID: t.provider})
	}
	return tn
}

// message dispatches what the agent said.
func (t *translator) message(m jsonrpc.Message) {
	verdict, call := t.peer.Got(m)
	switch verdict {
	case jsonrpc.Heard:
		t.heard(m)
	case jsonrpc.Asked:
		t.request(m)
	case jsonrpc.AskedAgain:
		t.asksAgain(m)
	case jsonrpc.Answered:
		t.answered(call, m)
	case jsonrpc.Withdrawn:
		t.withdrawn(call)
	case jsonrpc.Overrun:
		t.reply(jsonrpc.Refuse(m))
	case jsonrpc.Stray:
		t.skipped++
	}
}

// reply has a message written at once.
func (t *translator) reply(m jsonrpc.Message) {
	if line, err := jsonrpc.Encode(m, true); err == nil {
		t.replies = append(t.replies, json.RawMessage(line))
	}
}

// request takes a request of the agent. What we do not offer, files and
// terminals among it, is refused at once: the agent would wait without end.
func (t *translator) request(m jsonrpc.Message) {
	switch m.Method {
	case methodPermission:
		t.asksLeave(m)
	case methodElicit:
		t.asksValues(m)
	default:
		if reply, due := t.peer.Unknown(m); due {
			t.reply(reply)
		}
	}
}

// heard takes a notification.
func (t *translator) heard(m jsonrpc.Message) {
	if m.Method != methodUpdate {
		t.peer.Unknown(m)
		return
	}
	n := decodeLoose[notified](m.Params)
	u := decodeLoose[update](n.Update)
	u.toolCall.raw = n.Update
	if n.SessionID != "" && t.Session != "" && n.SessionID != t.Session {
		t.inChild(n.SessionID, func() { t.item(u) })
		return
	}
	if u.Kind != "agent_message_chunk" {
		t.flushAside()
	}
	if !t.fact(u) {
		t.item(u)
	}
}

// fact takes what is said of the session rather than in it.
func (t *translator) fact(u update) bool {
	switch u.Kind {
	case "available_commands_update":
		t.commands(u.Commands)
		if t.load != nil && t.load.late {
			t.endLoad()
		}
	case "current_mode_update":
		t.set("mode", u.ModeID)
	case "config_option_update":
		t.offered(opened{ConfigOptions: u.ConfigOptions})
	case "session_info_update":
		if title := oneLine(u.Title, 200); title != "" && title != t.Title {
			t.Title = title
			t.emit(event.SessionUpdated{Title: title})
		}
	case "usage_update":
		t.usage(u)
	case "notice":
		if text := oneLine(u.Title, 500); text != "" {
			level := event.LevelInfo
			if u.Severity == "warning" || u.Severity == "error" {
				level = event.Level(u.Severity)
			}
			t.notice(level, "AGENT_SAYS", text)
		}
	case "compaction_update":
		if u.Status == "completed" {
			t.notice(event.LevelInfo, "COMPACTED", "The agent summarised the conversation to make room in its context.")
		}
	case "state_update":
		t.state(u)
	default:
		return false
	}
	return true
}

// item takes what belongs to a turn.
func (t *translator) item(u update) {
	if t.load != nil && !t.replays(u) {
		return
	}
	switch u.Kind {
	case "user_message_chunk", "user_message": // of what we sent
	case "agent_message_chunk":
		t.chunk(event.TypeMessage, u)
	case "agent_thought_chunk":
		t.chunk(event.TypeReasoning, u)
	case "agent_message":
		t.whole(event.TypeMessage, u)
	case "agent_thought":
		t.whole(event.TypeReasoning, u)
	case "tool_call":
		t.upsert(u.toolCall, fromCall)
	case "tool_call_update":
		t.upsert(u.toolCall, fromUpdate)
	case "tool_call_content_chunk":
		t.shows(u)
	case "terminal_update", "terminal_output_chunk":
		t.terminal(u)
	case "plan":
		t.plan(u.Entries)
	case "subagent_update":
		t.subagent(u)
	case "plan_update":
		if u.Plan.Type == "items" {
			t.plan(u.Plan.Entries)
		}
	default:
		t.skipped++
	}
}

// state takes what version 2 says of the agent's work.
func (t *translator) state(u update) {
	if t.load != nil {
		return
	}
	switch u.State {
	case "running", "requires_action":
		if t.turn == nil {
			t.Unasked++
			t.begin(derive(t.Session + " unasked " + itoa(t.Unasked)))
			t.turn.asked = false
		}
		t.turn.begun = true
	case "idle":
		if t.turn != nil && t.turn.begun {
			t.finish(u.StopReason, u.Usage, u.Error)
		}
	}
}

// answered takes the agent's answer to a request of ours.
func (t *translator) answered(call jsonrpc.Call, m jsonrpc.Message) {
	t.flushAside()
	a := t.asked[call.ID.Key()]
	delete(t.asked, call.ID.Key())
	switch a.Method {
	case methodInitialize:
		in := decodeLoose[initialized](m.Result)
		t.Version, t.Caps, t.version = in.ProtocolVersion, in.caps(), in.AgentInfo.Version+in.Info.Version
	case methodNew, methodFork, methodLoad, methodResume:
		t.opened(a, m)
	case methodSetMode, methodSetModel, methodSetConfig:
		t.changed(a, m)
	case methodPrompt:
		id, _ := call.ID.Text()
		t.answeredPrompt(strings.TrimPrefix(id, promptID), m)
	}
}

// opened takes the answer to what begins a conversation, or continues one.
func (t *translator) opened(a asked, m jsonrpc.Message) {
	if t.load != nil {
		if t.q.replay.endsWithCommands && m.Error == nil {
			t.load.late = true // it has hardly begun
		} else {
			t.endLoad()
		}
	}
	if m.Error != nil {
		return
	}
	o := decodeLoose[opened](m.Result)
	if a.Method == methodLoad || a.Method == methodResume || o.SessionID == "" {
		o.SessionID = a.Session
	}
	t.Session = o.SessionID
	if t.Session != "" {
		t.emit(event.SessionUpdated{AgentSessionID: t.Session})
	}
	t.offered(o)
}

// answeredPrompt takes the answer to a prompt.
func (t *translator) answeredPrompt(id string, m jsonrpc.Message) {
	if i := slices.Index(t.waiting, id); i >= 0 { // out of order: it has nothing to show
		t.waiting = slices.Delete(t.waiting, i, i+1)
		for _, b := range []event.Body{
			event.ResponseStart{ModelID: t.Model, ProviderID: t.provider}, event.ResponseDone{Status: event.StatusCompleted},
		} {
			t.events = append(t.events, event.Event{At: t.at, Turn: id, Body: b})
		}
		return
	}
	if t.turn == nil || t.turn.id != id {
		return
	}
	p := decodeLoose[prompted](m.Result)
	if t.Version >= 2 && m.Error == nil && p.StopReason == "" {
		t.turn.begun = true
		return
	}
	if p.Usage == nil && t.q.live.usage != nil {
		p.Usage = t.q.live.usage(p.Meta)
	}
	t.finish(p.StopReason, p.Usage, m.Error)
}

func (t *translator) usage(u update) {
	b := event.UsageUpdated{ContextTokens: u.Used, ContextWindow: u.Size}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount >= 0 {
		if tn := t.turn; tn != nil {
			if u.Cost.Amount < tn.cost { // it counts anew
				tn.cost = 0
			}
			spent := u.Cost.Amount - tn.cost
			b.CostUSD = &spent
		}
		t.Cost = u.Cost.Amount
	}
	if t.load == nil && (b.ContextTokens > 0 || b.CostUSD != nil) {
		t.emit(b)
	}
}

// maxAside bounds what is kept of what is said beside the turns, in bytes.
const maxAside = 2000

// say keeps what the agent says while no turn is in flight.
func (t *translator) say(text string) {
	if t.aside.Len() < maxAside {
		text, _ = cut(text, maxAside)
		t.aside.WriteString(text)
	}
}

func (t *translator) flushAside() {
	if text := oneLine(t.aside.String(), 500); text != "" {
		t.notice(event.LevelInfo, "AGENT_SAYS", text)
	}
	t.aside.Reset()
}

// commands takes what the user may ask of the agent by name.
func (t *translator) commands(cs []command) {
	var out []event.AgentCommand
	for _, c := range cs[:min(len(cs), 500)] {
		if c.Name == "" {
			continue
		}
		cmd := event.AgentCommand{Name: oneLine(c.Name, 100), Description: oneLine(c.Description, 300)}
		if c.Input != nil {
			cmd.Hint = oneLine(c.Input.Hint, 200)
		}
		out = append(out, cmd)
	}
	if len(out) > 0 && !slices.Equal(out, t.Commands) {
		t.Commands = out
		t.emit(event.SessionUpdated{Commands: out})
	}
}

// modeOf is our word for the permission mode that the options add up to.
func (t *translator) modeOf() string {
	for _, m := range []runnel.PermissionMode{
		runnel.ModeBypass, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeDefault, runnel.ModeAcceptEdits,
	} {
		if want := t.q.startup.modes[m]; len(want) > 0 && t.has(want) {
			return string(m)
		}
	}
	return ""
}
