package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// toolCalls holds the tool calls of a turn, and the terminals with their
// output.
type toolCalls struct {
	out       translate.TurnEmitter
	session   *session // only its settings are changed
	threads   *threads
	byID      map[string]*call // by the agent's id
	terminals terminals

	held         int  // bytes that the calls hold, see call.held
	terminalData int  // bytes that the terminals hold
	noted        bool // a notice has reported that something was dropped
}

// call is a tool call. The agent describes it in three kinds of messages: the
// tool call itself, its updates, and permission requests.
type call struct {
	item      string
	id        string
	name      string
	order     int // position in the turn, from 0
	kind      event.ToolKind
	title     string
	thread    *thread
	input     json.RawMessage
	locations []event.Location
	content   []toolContent
	rawOutput json.RawMessage
	terminal  string // the agent's id of the terminal with the output, or ""
	failed    bool

	shown          json.RawMessage // arguments in the last permission request
	reportedChange bool            // the agent has reported contradicting arguments since

	early     bool             // began ahead of the model's message, see isDescribed
	rewritten bool             // the model's message has replaced early arguments, at least in part
	described bool             // the arguments are final: ItemDone is emitted
	completed bool             // the call has ended; its output may follow
	output    translate.Output // the output item

	held    int  // size of input, shown, content and rawOutput when it was last determined, in bytes
	dropped bool // the input was too large to be held
}

// origin is the kind of message that describes a call.
type origin int

const (
	fromCall origin = iota
	fromUpdate
	fromQuestion
)

// Maximum numbers of calls in a turn, and of content pieces and locations of a
// call. Maximum bytes that all calls of a turn hold, and all terminals. Bytes of
// the arguments of an ended call that are held.
const (
	maxCalls        = 10000
	maxContent      = 1000
	maxLocations    = 100
	maxHeld         = 32 << 20
	maxTerminalData = 32 << 20
	maxEndedInput   = 16 << 10
)

// toolKinds lists the tool kinds of the protocol. package event has the same
// names.
var toolKinds = []event.ToolKind{
	event.KindRead, event.KindEdit, event.KindDelete, event.KindMove, event.KindSearch, event.KindExecute,
	event.KindThink, event.KindFetch, event.KindSwitchMode, event.KindOther,
}

// isOpen reports whether a call has started and its output has not ended.
func (cs *toolCalls) isOpen(id string) bool {
	c := cs.byID[id]
	return c != nil && !c.output.Ended()
}

// update applies a description of a call, and starts the call if it is new.
// subagent is the id of the subagent's conversation that sent it, or "" for the
// main agent. update returns nil if the turn has too many calls, or if the
// description of a new call has only an id.
func (cs *toolCalls) update(tc toolCall, from origin, subagent string) *call {
	c := cs.byID[tc.ID]
	isNew := c == nil
	if of := cs.session.q.live.mcp; of != nil {
		if m := of(tc, !isNew && strings.HasPrefix(c.name, mcpPrefix)); m != nil {
			tc = m.plain(tc)
		}
	}
	if isNew {
		if len(cs.byID) >= maxCalls || from == fromUpdate && tc.isEmpty() {
			return nil
		}
		c = cs.add(tc, subagent)
	}
	gotInput := c.merge(tc, from, isNew, &cs.session.q.live)
	if from == fromQuestion {
		c.noteShown(tc.RawInput)
	} else if c.contradicts(tc.RawInput) {
		cs.out.Emit(translate.ArgumentsDiffer(c.name))
	}
	if c.output.Ended() && from != fromQuestion {
		cs.forget(c)
		return c
	}
	if isNew {
		cs.out.Emit(event.ItemStart{ItemID: c.item, ItemType: event.TypeFunctionCall, CallID: c.id, Name: c.name, ParentCallID: c.thread.parent})
	}
	if c.isDescribed(tc, from, isNew, gotInput, &cs.session.q.live) {
		cs.describe(c)
	}
	cs.progress(c, tc)
	if tc.ended() && !c.completed {
		c.completed, c.failed = true, tc.Status == "failed"
		if !cs.awaitsOutput(c) {
			cs.answer(c)
		}
	}
	cs.account(c)
	return c
}

// add adds a new call. The caller emits its start.
func (cs *toolCalls) add(tc toolCall, subagent string) *call {
	q := cs.session.q
	c := &call{id: tc.ID, order: len(cs.byID), kind: event.KindOther}
	c.name = cmp.Or(q.nameOf(tc), text.OneLine(tc.Name, 200), text.OneLine(tc.ToolKind, 40), "tool")
	if len(c.id) > 1000 {
		c.id = derive(c.id)
	}
	c.thread = cs.threads.of(cmp.Or(subagent, q.parentOf(metaOf(tc.raw))))
	c.thread.interrupt()
	c.item = c.thread.ids.Next("call " + tc.ID)
	c.output = translate.NewOutput(c.item, c.id, c.name, c.thread.parent)
	cs.byID[tc.ID] = c
	c.early = q.live.inputGrows && translate.IsObject(tc.RawInput)
	return c
}

func metaOf(raw json.RawMessage) json.RawMessage {
	return translate.DecodeLenient[struct {
		Meta json.RawMessage `json:"_meta"`
	}](raw).Meta
}

// merge applies the fields of a description to the call. It reports whether it
// changed the arguments.
func (c *call) merge(tc toolCall, from origin, isNew bool, q *liveQuirks) (gotInput bool) {
	asks := from == fromQuestion && !isNew // then title and kind describe the request
	if tc.Title != "" && !asks {
		c.title = text.OneLine(tc.Title, 200)
	}
	if k := event.ToolKind(tc.ToolKind); slices.Contains(toolKinds, k) && !asks {
		c.kind = k
	}
	gotInput = translate.IsObject(tc.RawInput) && !c.described && (!asks || !translate.IsObject(c.input))
	if gotInput {
		c.input = tc.RawInput
		c.rewritten = !isNew
	}
	if len(tc.RawOutput) > 0 && string(tc.RawOutput) != "null" {
		c.rawOutput = tc.RawOutput
	}
	// A permission request may arrive before or after the last update. An agent
	// with inputGrows does not store the locations of the request, so they must
	// not change the item.
	if tc.Locations != nil && (!asks || c.locations == nil && !q.inputGrows) {
		c.locations = locations(tc.Locations)
	}
	if list, has := tc.content(); has && (!asks || c.content == nil) {
		c.content = list
		for _, shown := range list {
			if shown.Type == "terminal" && shown.TerminalID != "" {
				c.terminal = nativeID(shown.TerminalID)
			}
		}
	}
	return gotInput
}

func locations(native []location) (out []event.Location) {
	for _, l := range native[:min(len(native), maxLocations)] {
		if l.Path != "" && len(l.Path) <= 4096 {
			out = append(out, event.Location{Path: l.Path, Line: max(l.Line, 0)})
		}
	}
	return out
}

// isDescribed reports whether the arguments of a call are final after the
// description tc.
//
// Claude Agent sends what a permission check needs ahead of the model's message
// if the check overtakes the message. Such a call is early: it begins with
// arguments in the form of the check, and the message replaces them with those
// that the agent stores. They are final at the end of the message, see
// describeAll.
func (c *call) isDescribed(tc toolCall, from origin, isNew, gotInput bool, q *liveQuirks) bool {
	switch {
	case tc.Status == "in_progress" || tc.ended():
		return true
	case c.early:
		return false
	case from == fromUpdate && q.inputGrows:
		return translate.IsObject(c.input) && (len(c.content) > 0 || !gotInput)
	case from == fromUpdate:
		return gotInput || translate.IsObject(c.input) && len(c.content) > 0
	case from == fromQuestion && !q.lateInput:
		return isNew || translate.IsObject(c.input)
	}
	return false
}

// describeAll emits the end of all call items whose arguments the model's
// message has given.
func (cs *toolCalls) describeAll() {
	for _, c := range cs.inOrder() {
		if translate.IsObject(c.input) && (!c.early || c.rewritten) {
			cs.describe(c)
		}
	}
}

// describe emits the end of a call's item with its final arguments. It emits
// the plan too, if the call writes one. Only the first call of describe has an
// effect.
func (cs *toolCalls) describe(c *call) {
	if c.described {
		return
	}
	c.described = true
	args := c.input
	if !translate.IsObject(args) {
		args = json.RawMessage("{}")
	}
	q := cs.session.q
	if q.live.title != nil {
		c.title = text.OneLine(cmp.Or(q.live.title(c), c.title), 200)
	}
	cs.out.Emit(event.ItemDone{ItemID: c.item, FinalItem: event.FunctionCall{
		Name: c.name, CallID: c.id, Arguments: args, Kind: c.kind, Title: c.title, Locations: c.locations,
	}})
	if q.live.steps != nil {
		if entries := q.live.steps(c); len(entries) > 0 {
			translate.EmitPlan(cs.out, c.item+":plan", c.thread.parent, planEntries(entries))
		}
	}
}

// progress streams the output of a running call.
func (cs *toolCalls) progress(c *call, tc toolCall) {
	m := translate.DecodeLenient[terminalMeta](metaOf(tc.raw))
	for _, piece := range []*terminalText{m.Output, m.Delta} {
		if piece != nil && piece.TerminalID != "" {
			id := nativeID(piece.TerminalID)
			c.terminal = cmp.Or(c.terminal, id)
			if cs.addTerminal(cs.terminals.get(id), piece.Data) || !c.output.Opened() {
				cs.streamTerminal(c)
			}
		}
	}
	if m.Exit != nil && m.Exit.TerminalID != "" {
		cs.terminals.get(nativeID(m.Exit.TerminalID)).exited(m.Exit.Code)
	}
	if cs.session.q.live.running && c.described && !tc.ended() && c.terminal == "" {
		cs.stream(c, c.text())
	}
}

// addContent adds a piece of content to a call, in version 2.
func (cs *toolCalls) addContent(u update) {
	c := cs.byID[u.ID]
	if c == nil || c.completed {
		return
	}
	if piece := translate.DecodeLenient[toolContent](u.Content); piece.Type != "" && len(c.content) < maxContent {
		c.content = append(c.content, piece)
		cs.account(c)
	}
}

// stream emits the new part of a call's output, if the output has grown.
func (cs *toolCalls) stream(c *call, output string) {
	if c.output.Grows(output) {
		cs.describe(c)
		c.output.Grow(cs.out, output)
	}
}

// text returns the text in the content of a call.
func (c *call) text() string {
	var parts []string
	for _, shown := range c.content {
		if shown.Type == "content" {
			parts = append(parts, shown.Content.text())
		}
	}
	return strings.Join(parts, "\n")
}

// answer emits the final output of a call and releases its content.
func (cs *toolCalls) answer(c *call) {
	if c.output.Ended() {
		return
	}
	cs.describe(c)
	c.thread.callEnded()
	if f := cs.session.q.live.invalid; f != nil {
		c.failed = c.failed || f(c)
	}
	final := event.FunctionCallOutput{CallID: c.id, IsError: c.failed}
	var output string
	output, final.ExitCode = cs.outputOf(c)
	total := int64(len(output))
	if term := cs.terminals[c.terminal]; term != nil {
		total = term.total
	}
	translate.SetOutput(&final, output, total)
	if !c.failed {
		final.Changes = changesOf(c, cs.session.q)
		if f := cs.session.q.live.modeAfter; f != nil {
			cs.session.settings.set(cs.out, "mode", f(c))
		}
	}
	if c.kind == event.KindOther && translate.IsObject(c.rawOutput) && len(c.rawOutput) <= translate.MaxDetail {
		final.Detail = c.rawOutput
	}
	c.output.Done(cs.out, final)
	cs.forget(c)
}

// outputOf returns the output of a call, and the exit code of a command or nil.
func (cs *toolCalls) outputOf(c *call) (string, *int) {
	if term := cs.terminals[c.terminal]; term != nil {
		return term.text(), term.code
	}
	output, code := c.text(), (*int)(nil)
	if f := cs.session.q.live.output; f != nil {
		output, code = f(c)
	}
	if output != "" {
		return output, code
	}
	if s := translate.DecodeLenient[string](c.rawOutput); s != "" {
		return s, code
	}
	raw := translate.DecodeLenient[struct {
		Message string `json:"message"`
		Error   string `json:"error"`
		Output  string `json:"output"`
	}](c.rawOutput)
	return cmp.Or(raw.Output, raw.Error, raw.Message), code
}

// inOrder returns the calls in the order in which they started.
func (cs *toolCalls) inOrder() []*call {
	return slices.SortedFunc(maps.Values(cs.byID), func(a, b *call) int { return a.order - b.order })
}

// settle ends the open items of the calls when the turn ends. whole means that
// the turn completed; otherwise why is the reason of the cancellation. A call
// without output gets none.
func (cs *toolCalls) settle(whole bool, why event.CancelReason) {
	for _, c := range cs.inOrder() {
		switch {
		case c.output.Ended():
		case c.completed:
			cs.answer(c)
		case whole && c.output.Opened(): // the call continues in the background
			cs.answer(c)
		case !c.described && whole:
			cs.describe(c)
		case !c.described:
			cs.out.Emit(event.ItemCancelled{ItemID: c.item, Reason: why})
		default:
			c.output.Cancel(cs.out, why)
		}
	}
}
