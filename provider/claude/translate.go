package claude

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// providerID is how events name this provider.
const providerID = "claude-code"

// translator turns what passes between us and one agent process into events.
//
// It is pure: lines go in, in the order in which they passed, and events come
// out; the same lines give the same events with the same ids. It serves the
// live conversation, a recording of one, and the agent's own files alike.
//
// A turn begins when the agent starts on a prompt (system/init) and ends with
// its result. Items are numbered within it: the native messages of a thread from
// 1, their blocks from 0. The output of a call has the id of the call followed by
// ":output". Ids that the agent made are kept in Native and are not keys.
type translator struct {
	at      time.Time // of the line in hand
	events  []event.Event
	replies []any // what must be answered at once, without asking anyone

	waiting   []string             // prompts written whose turn has not begun: ids of their turns
	early     bool                 // we asked for the end of the turn that begins next
	turn      *turn                // from its init until its result
	requests  map[string]string    // subtypes of our control requests that were not answered yet
	approvals map[string]*approval // open ones by our id
	asked     int                  // control requests of the connection
	own       int                  // control requests made by the translator
	commands  map[string]bool      // that the agent offers
	tasks     map[string]*task     // that go on in the background, by their call
	parts     map[string]int       // how many turns each task has had
	agents    map[string]string    // calls by the id of the subagent that they started
	plan      []step               // what the agent means to do, as far as it said
	files     map[event.AgentFile]bool
	behind    map[string]bool // tasks in the background by their own ids
	asides    []*turn         // that hold questions asked beside the turn in flight

	session, model, mode string // as last announced
	keyed                bool   // the agent uses an API key, not a login
	cost                 float64
	denies               bool // the settings deny some calls, or are not known yet
	skipped              int  // frames that mean nothing to us
}

// turn is the state of a turn in flight.
type turn struct {
	id          string // "" while a turn that nobody asked for has no message to be named after
	asked       bool   // it answers a prompt of ours
	started     bool   // its ResponseStart is out
	ended       bool   // its terminal event is out, but not yet the agent's result
	interrupted bool   // we asked the agent to stop
	threads     map[string]*thread
	calls       map[string]*call
	used        map[string]usage // by native message
	context     int64            // tokens of the last message of the main thread
	stop        string           // why the last message ended, as far as its blocks say
	failure     string           // the agent's word for what went wrong
	status      int              // the API's answer to it, as stored
}

func newTranslator() *translator {
	return &translator{
		requests: make(map[string]string), approvals: make(map[string]*approval),
		tasks: make(map[string]*task), parts: make(map[string]int), agents: make(map[string]string),
		files: make(map[event.AgentFile]bool), behind: make(map[string]bool), commands: make(map[string]bool),
	}
}

func newTurn(id string) *turn {
	return &turn{id: id, threads: make(map[string]*thread), calls: make(map[string]*call), used: make(map[string]usage)}
}

// sent takes a line that we wrote to the agent.
func (t *translator) Sent(line []byte, at time.Time) []event.Event {
	f, err := decode(line)
	if err != nil {
		return nil // ours always decode; a damaged recording may not
	}
	t.at = at
	switch f.Type {
	case "user":
		t.prompted(f)
	case "control_request":
		t.requested(f)
	case "control_response":
		t.decided(f)
	}
	return t.take()
}

// printed takes a line that the agent wrote. The second result is what to
// answer at once; it must pass through sent as well when it is written.
func (t *translator) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	t.at = at
	f, err := decode(line)
	if err != nil {
		t.notice(event.LevelWarning, "UNDECODABLE_LINE", "The agent printed a line that is not in its protocol; it was left out.")
	} else {
		t.frame(f)
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

// frame dispatches what the agent said.
func (t *translator) frame(f frame) {
	if f.SessionID != "" && f.SessionID != t.session && f.Type != "control_request" {
		if t.session != "" { // it changes within a process, too: /clear
			t.plan = nil
		}
		t.session = f.SessionID
		defer t.emit(event.SessionUpdated{AgentSessionID: f.SessionID})
	}
	switch f.Type {
	case "stream_event":
		t.stream(f)
	case "assistant", "user":
		if t.late(f) {
			t.skipped++
		} else if k := t.beside(f); k != nil {
			t.hold(k, func() { t.said(f) })
		} else {
			t.said(f)
		}
	case "result":
		t.result(f)
	case "system":
		t.system(f)
	case "rate_limit_event":
		t.limits(f)
	case "control_request":
		t.ask(f)
	case "control_cancel_request":
		t.withdraw(f.RequestID)
	case "control_response":
		t.answered(f)
	default:
		t.skipped++
	}
	t.settleAsides()
}

// said takes what somebody said in the agent's conversation.
func (t *translator) said(f frame) {
	if f.Type == "assistant" {
		t.assistant(f)
	} else {
		t.user(f)
	}
}

// emit adds an event: to the turn in flight if there is one.
func (t *translator) emit(b event.Body) {
	id := ""
	if t.turn != nil && t.turn.started && !t.turn.ended {
		id = t.turn.id
	}
	t.events = append(t.events, event.Event{At: t.at, Turn: id, Body: b})
}

func (t *translator) notice(level event.Level, code, message string) {
	t.emit(event.Notice{Level: level, Code: code, Message: message})
}

// prompted takes a prompt of ours. The turn's id is the prompt's own.
func (t *translator) prompted(f frame) {
	if f.UUID == "" || f.Message == nil {
		return
	}
	t.waiting = append(t.waiting, f.UUID)
	t.userMessage(f.UUID, f.UUID+":0:0", *f.Message)
}

func (t *translator) userMessage(turnID, itemID string, m message) {
	msg := event.Message{Content: m.Content.text(), Origin: event.OriginUser, Attachments: attachments(m.Content)}
	for _, b := range []event.Body{
		event.ItemStart{ItemID: itemID, ItemType: event.TypeMessage},
		event.ItemDone{ItemID: itemID, FinalItem: msg},
	} {
		t.events = append(t.events, event.Event{At: t.at, Turn: turnID, Body: b})
	}
}

// running returns the turn in flight and announces it. If none is, it begins
// that of the oldest prompt, or else one that nobody asked for, which is named
// after the first native message in it. It returns nil if there is nothing to
// report to: the turn has no name yet, or its terminal event is out already.
func (t *translator) running(nativeMessage string) *turn {
	if t.turn == nil {
		t.turn = newTurn("")
		if len(t.waiting) > 0 {
			t.turn.id, t.turn.asked = t.waiting[0], true
			t.turn.interrupted, t.early = t.early, false
			t.waiting = t.waiting[1:]
		}
	}
	tn := t.turn
	if tn.id == "" && nativeMessage != "" {
		tn.id = derive(t.session + " " + nativeMessage)
	}
	if tn.id == "" || tn.ended {
		return nil
	}
	if !tn.started {
		tn.started = true
		t.emit(event.ResponseStart{ModelID: t.model, ProviderID: providerID})
	}
	return tn
}

// system takes the frames that are about the session rather than the conversation.
func (t *translator) system(f frame) {
	switch f.Subtype {
	case "init":
		t.begin(f)
	case "status":
		if m := modeOf(f.PermissionMode); m != "" && m != t.mode {
			t.mode = m
			t.emit(event.SessionUpdated{PermissionMode: m})
			t.warn(m)
		}
	case "api_retry":
		t.retry(f)
	case "compact_boundary":
		t.notice(event.LevelInfo, "COMPACTED", "The agent summarised the conversation to make room in its context.")
	case "model_fallback":
		t.notice(event.LevelWarning, "MODEL_FALLBACK", "The model is overloaded; the agent goes on with "+cmp.Or(oneLine(f.FallbackModel, 200), "another one")+".")
	case "model_refusal_fallback", "model_refusal_no_fallback":
		t.notice(event.LevelWarning, "REFUSED", "The model declined to answer.")
	case "task_started", "task_progress", "task_updated", "task_notification":
		t.taskEvent(f)
	case "informational":
		if text := oneLine(f.Content, 500); text != "" {
			t.notice(event.LevelInfo, "AGENT_SAYS", text)
		}
	case "session_title_changed":
		if title := oneLine(f.Title, 200); title != "" {
			t.emit(event.SessionUpdated{Title: title})
		}
	default:
		t.skipped++
	}
}

// begin takes the init frame, which opens every turn.
func (t *translator) begin(f frame) {
	t.keyed = f.APIKeySource != "" && f.APIKeySource != "none"
	var changed event.SessionUpdated
	if f.Model != "" && f.Model != t.model {
		t.model, changed.ModelID = f.Model, f.Model
	}
	if m := modeOf(f.PermissionMode); m != "" && m != t.mode {
		t.mode, changed.PermissionMode = m, m
	}
	if changed.ModelID != "" || t.turn == nil {
		changed.Tools = boundedTools(f.Tools)
	}
	if t.turn != nil && !t.turn.asked && len(t.waiting) > 0 {
		t.leave() // every turn has one init: this is the prompt's
	}
	t.running("")
	if changed.ModelID != "" || changed.PermissionMode != "" {
		t.emit(changed)
		t.warn(changed.PermissionMode)
	}
}

// warn says so when nobody is asked any more.
func (t *translator) warn(mode string) {
	if mode == string(runnel.ModeBypass) {
		t.notice(event.LevelWarning, "PERMISSIONS_BYPASSED", "Every tool runs without asking.")
	}
}

// leave ends a turn that nobody asked for and whose result did not come.
func (t *translator) leave() {
	if tn := t.running(""); tn != nil {
		for _, th := range tn.threads {
			t.abandon(th, 0)
		}
		t.end(event.ResponseDone{Status: event.StatusCompleted, Usage: tn.sum()})
	}
	t.turn = nil
}

func (t *translator) limits(f frame) {
	if f.RateLimit == nil || f.RateLimit.Status == "" {
		return
	}
	r := f.RateLimit
	t.emit(event.UsageUpdated{RateLimit: &event.RateLimit{
		Status: oneLine(r.Status, 40), Kind: oneLine(r.RateLimitType, 40), Utilization: r.Utilization, ResetsAt: r.ResetsAt,
	}})
	if r.Status == "rejected" {
		until := ""
		if r.ResetsAt > 0 && r.ResetsAt < 1<<33 {
			until = " until " + time.Unix(r.ResetsAt, 0).UTC().Format("2006-01-02 15:04 MST")
		}
		t.notice(event.LevelWarning, "RATE_LIMITED", "The account's limit is used up"+until+".")
	}
}

// requested takes a control request of ours.
func (t *translator) requested(f frame) {
	if f.Request == nil {
		return
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(f.RequestID, requestPrefix)); err == nil {
		t.asked = max(t.asked, n)
	}
	t.requests[f.RequestID] = f.Request.Subtype
	if f.Request.Subtype == "get_settings" {
		t.denies = true
	}
	if f.Request.Subtype != "interrupt" {
		return
	}
	if t.turn != nil && !t.turn.ended {
		t.turn.interrupted = true
	} else {
		t.early = len(t.waiting) > 0
	}
}

// requestPrefix begins the ids of the connection's own control requests; the
// number of each follows.
const requestPrefix = "runnel-"

// request makes the next control request of the connection.
func (t *translator) request(r controlRequest) request {
	return request{"control_request", requestPrefix + itoa(t.asked+1), r}
}

// answered takes the agent's answer to a control request of ours.
func (t *translator) answered(f frame) {
	if f.Response == nil {
		return
	}
	subtype := t.requests[f.Response.RequestID]
	delete(t.requests, f.Response.RequestID)
	switch {
	case subtype == "interrupt":
		t.stopAsides()
	case subtype == "get_settings" && f.Response.Subtype == "success":
		t.denies = len(decodeLoose[settings](f.Response.Response).Effective.Permissions.Deny) > 0
	case subtype == "initialize" && f.Response.Subtype == "success":
		in := decodeLoose[initialized](f.Response.Response)
		for _, cmd := range in.Commands {
			t.commands[cmd.Name] = true
		}
		if len(in.Commands) > 0 {
			t.emit(event.SessionUpdated{Commands: commands(in)})
		}
	case f.Response.Subtype == "error" && (subtype == "set_model" || subtype == "set_permission_mode"):
		t.notice(event.LevelWarning, "OPTION_REFUSED", "The agent refused to change its "+map[string]string{
			"set_model": "model", "set_permission_mode": "permission mode"}[subtype]+".")
	}
}

// foreign reports whether a result ends a turn that was not the asked one.
//
// A background task that finishes starts a turn of its own. If a prompt is
// written in that instant, what the task's turn says counts towards the
// prompt's, but its result must not end it: the prompt's own is still to come.
func (t *translator) foreign(f frame) bool {
	asked := ""
	switch {
	case t.turn != nil && t.turn.asked:
		asked = t.turn.id
	case t.turn == nil && len(t.waiting) > 0:
		asked = t.waiting[0]
	default:
		return false
	}
	if len(f.UserMessages) > 0 {
		return !slices.Contains(f.UserMessages, asked)
	}
	return f.Origin != nil && f.Origin.Kind == "task-notification"
}

// result ends a turn.
func (t *translator) result(f frame) {
	cost := t.spent(f)
	if t.foreign(f) {
		return
	}
	if t.turn == nil && len(t.waiting) == 0 {
		return // a turn without a trace, or a failure to start
	}
	tn := t.running("")
	if tn == nil {
		t.turn = nil
		return
	}
	for _, th := range tn.threads {
		t.abandon(th, 0)
	}
	u := tn.sum()
	if f.Usage != nil && *f.Usage != (usage{}) { // 2.1.197 does not count an answer that was not streamed (cut-stream)
		u = f.Usage.event()
	}
	t.emit(event.UsageUpdated{Usage: u, ContextTokens: tn.context, ContextWindow: t.window(f), CostUSD: cost})
	t.end(outcome(f, tn, t.keyed, u))
	t.turn = nil
}

// end emits the terminal event.
func (t *translator) end(b event.Body) {
	t.emit(b)
	t.turn.ended = true
	for id, a := range t.approvals {
		if a.turn == t.turn {
			delete(t.approvals, id)
		}
	}
}

// spent returns what the turn cost. total_cost_usd counts from the start of
// the process, and on 2.1.329 from the start of the conversation.
func (t *translator) spent(f frame) *float64 {
	if f.TotalCostUSD == nil {
		return nil
	}
	cost := *f.TotalCostUSD - t.cost
	t.cost = *f.TotalCostUSD
	if f.SinceLast != nil {
		cost = 0
		for _, m := range f.SinceLast {
			cost += m.CostUSD
		}
	}
	cost = max(cost, 0)
	return &cost
}

func (t *translator) window(f frame) int64 {
	if m, ok := f.ModelUsage[t.model]; ok {
		return m.ContextWindow
	}
	var w int64
	for _, m := range f.ModelUsage {
		w = max(w, m.ContextWindow)
	}
	return w
}

// sum is what the turn's messages used so far.
func (tn *turn) sum() *event.Usage {
	var u event.Usage
	for _, m := range tn.used {
		u.InputTokens += m.InputTokens
		u.OutputTokens += m.OutputTokens
		u.CacheReadInputTokens += m.CacheReadInputTokens
		u.CacheCreationInputTokens += m.CacheCreationInputTokens
	}
	return &u
}

func (u usage) event() *event.Usage {
	return &event.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadInputTokens: u.CacheReadInputTokens, CacheCreationInputTokens: u.CacheCreationInputTokens,
	}
}

func (u usage) context() int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
}
