package acp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// call is a tool call. It is made up of what comes in three places: its
// announcement, its updates, and the questions about it.
type call struct {
	item      string
	id        string
	name      string
	order     int
	kind      event.ToolKind
	title     string
	parent    string
	input     json.RawMessage
	locations []event.Location
	content   []toolContent
	rawOutput json.RawMessage
	terminal  string // the agent's id of the terminal that shows its output
	failed    bool
	shown     json.RawMessage // arguments that somebody was asked about
	swapped   bool            // others were said since

	told      bool // its item has ended
	opened    bool // its output's item has begun
	streamed  string
	completed bool // but its output may be still to come
	answered  bool // its output's item has ended
}

// origin is where a piece of a call came from.
type origin int

const (
	fromCall origin = iota
	fromUpdate
	fromQuestion
)

// maxCalls bounds the calls of a turn.
const maxCalls = 10000

// toolKinds are those of the protocol, which are ours.
var toolKinds = []event.ToolKind{
	event.KindRead, event.KindEdit, event.KindDelete, event.KindMove, event.KindSearch, event.KindExecute,
	event.KindThink, event.KindFetch, event.KindSwitchMode, event.KindOther,
}

// upsert takes what there is to know of a call. It returns nil if there is
// nowhere to show it: late updates are of a turn that is over.
func (t *translator) upsert(tc toolCall, from origin) *call {
	if t.turn == nil || tc.ID == "" {
		t.skipped++
		return nil
	}
	c := t.turn.calls[tc.ID]
	isNew := c == nil
	if isNew {
		if len(t.turn.calls) >= maxCalls {
			return nil
		}
		c = t.newCall(t.running(), tc)
	}
	inputs := c.merge(tc, from, isNew)
	if from == fromQuestion {
		c.asked(tc.RawInput)
	} else {
		t.compare(c, tc.RawInput)
	}
	if c.answered && from != fromQuestion {
		c.forget()
		return c
	}
	if isNew {
		t.emit(event.ItemStart{ItemID: c.item, ItemType: event.TypeFunctionCall, CallID: c.id, Name: c.name, ParentCallID: c.parent})
	}
	ended := tc.Status == "completed" || tc.Status == "failed"
	ready := tc.Status == "in_progress" || ended || from == fromUpdate && (inputs || isObject(c.input) && len(c.content) > 0)
	if from == fromQuestion && !t.q.live.lateInput {
		ready = ready || isNew || isObject(c.input)
	}
	if ready {
		t.tell(c)
	}
	t.progress(c, tc)
	if ended && !c.completed {
		c.completed, c.failed = true, tc.Status == "failed"
		if !t.awaits(c) {
			t.answer(c)
		}
	}
	return c
}

func (t *translator) newCall(tn *turn, tc toolCall) *call {
	c := &call{id: tc.ID, order: len(tn.calls), parent: t.parentOf(metaOf(tc.raw)), kind: event.KindOther}
	c.name = t.q.nameOf(tc)
	if c.name == "" {
		c.name = cmp.Or(oneLine(tc.Name, 200), oneLine(tc.ToolKind, 40), "tool")
	}
	if len(c.id) > 1000 {
		c.id = derive(c.id)
	}
	th := tn.thread(c.parent)
	t.close(th)
	th.kinds = nil
	c.item = th.item("call " + tc.ID)
	tn.calls[tc.ID] = c
	return c
}

func metaOf(raw json.RawMessage) json.RawMessage {
	return decodeLoose[struct {
		Meta json.RawMessage `json:"_meta"`
	}](raw).Meta
}

// merge takes over what is there. It reports whether arguments were.
func (c *call) merge(tc toolCall, from origin, isNew bool) (inputs bool) {
	asks := from == fromQuestion && !isNew // its words are about the question
	if tc.Title != "" && !asks {
		c.title = oneLine(tc.Title, 200)
	}
	if k := event.ToolKind(tc.ToolKind); slices.Contains(toolKinds, k) && !asks {
		c.kind = k
	}
	if inputs = isObject(tc.RawInput) && !c.told && (!asks || !isObject(c.input)); inputs {
		c.input = tc.RawInput
	}
	if len(tc.RawOutput) > 0 && string(tc.RawOutput) != "null" {
		c.rawOutput = tc.RawOutput
	}
	if tc.Locations != nil && !asks {
		c.locations = nil
		for _, l := range tc.Locations[:min(len(tc.Locations), 100)] {
			if l.Path != "" && len(l.Path) <= 4096 {
				c.locations = append(c.locations, event.Location{Path: l.Path, Line: max(l.Line, 0)})
			}
		}
	}
	content := decodeLoose[struct {
		Content json.RawMessage `json:"content"`
	}](tc.raw).Content
	if list := decodeEach[toolContent](content); content != nil && string(content) != "null" && (!asks || c.content == nil) {
		c.content = list
		for _, tcn := range list {
			if tcn.Type == "terminal" && tcn.TerminalID != "" {
				c.terminal = tcn.TerminalID
			}
		}
	}
	return inputs
}

// tell ends the item of a call: its arguments are final.
func (t *translator) tell(c *call) {
	if c.told {
		return
	}
	c.told = true
	args := c.input
	if !isObject(args) {
		args = json.RawMessage("{}")
	}
	if t.q.live.title != nil {
		c.title = oneLine(cmp.Or(t.q.live.title(c), c.title), 200)
	}
	t.emit(event.ItemDone{ItemID: c.item, FinalItem: event.FunctionCall{
		Name: c.name, CallID: c.id, Arguments: args, Kind: c.kind, Title: c.title, Locations: c.locations,
	}})
	if t.q.live.steps != nil {
		if entries := t.q.live.steps(c); len(entries) > 0 {
			t.planItem(c.item+":plan", c.parent, entries)
		}
	}
}

// progress shows what a call that goes on has printed.
func (t *translator) progress(c *call, tc toolCall) {
	m := decodeLoose[terminalMeta](metaOf(tc.raw))
	for _, piece := range []*terminalText{m.Output, m.Delta} {
		if piece != nil && piece.TerminalID != "" {
			c.terminal = cmp.Or(c.terminal, piece.TerminalID)
			t.term(piece.TerminalID).add([]byte(piece.Data))
			t.print(c)
		}
	}
	if m.Exit != nil && m.Exit.TerminalID != "" {
		t.term(m.Exit.TerminalID).exited(m.Exit.Code)
	}
	if t.q.live.running && c.told && tc.Status != "completed" && tc.Status != "failed" && c.terminal == "" {
		t.stream(c, c.text())
	}
}

// shows takes a piece of what a tool shows, in version 2.
func (t *translator) shows(u update) {
	if t.turn == nil {
		return
	}
	c := t.turn.calls[u.ID]
	if c == nil || c.completed {
		return
	}
	if list := decodeLoose[toolContent](u.Content); list.Type != "" && len(c.content) < 1000 {
		c.content = append(c.content, list)
	}
}

// stream shows text that begins with what was shown already.
func (t *translator) stream(c *call, text string) {
	text, _ = cut(text, event.MaxOutput)
	rest, grown := strings.CutPrefix(text, c.streamed)
	if !grown || rest == "" || c.answered {
		return
	}
	t.tell(c)
	if !c.opened {
		c.opened = true
		t.emit(event.ItemStart{ItemID: c.item + ":output", ItemType: event.TypeFunctionCallOutput, CallID: c.id, Name: c.name, ParentCallID: c.parent})
	}
	c.streamed = text
	t.emit(event.ItemDelta{ItemID: c.item + ":output", DeltaContent: rest})
}

// text is what a call shows in words.
func (c *call) text() string {
	var parts []string
	for _, tc := range c.content {
		if tc.Type == "content" {
			parts = append(parts, tc.Content.text())
		}
	}
	return strings.Join(parts, "\n")
}

// maxDetail bounds the structured result that is passed on, in bytes.
const maxDetail = 16 << 10

// answer ends a call with its output.
func (t *translator) answer(c *call) {
	if c.answered {
		return
	}
	t.tell(c)
	c.answered = true
	th := t.turn.thread(c.parent)
	if th.kinds = nil; th.open != nil && th.open.native == "" {
		t.close(th) // what the model says next is another message
	}
	out := event.FunctionCallOutput{CallID: c.id, IsError: c.failed}
	var text string
	text, out.ExitCode = t.outputOf(c)
	total := int64(len(text))
	if term := t.turn.terms[c.terminal]; term != nil {
		total = term.total
	}
	if out.Output, _ = cut(text, event.MaxOutput); int64(len(out.Output)) < total {
		out.Truncated, out.TotalBytes = true, total
	}
	if !c.failed {
		out.Changes = t.changesOf(c)
	}
	if c.kind == event.KindOther && isObject(c.rawOutput) && len(c.rawOutput) <= maxDetail {
		out.Detail = c.rawOutput
	}
	id := c.item + ":output"
	if !c.opened {
		t.emit(event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCallOutput, CallID: c.id, Name: c.name, ParentCallID: c.parent})
	}
	t.emit(event.ItemDone{ItemID: id, FinalItem: out})
	c.forget()
}

// forget drops what nobody asks for any more: a turn may have many calls.
func (c *call) forget() { c.content, c.rawOutput, c.streamed = nil, nil, "" }

// changesOf says what a call does to files.
func (t *translator) changesOf(c *call) []event.Change {
	out := changes(c.content, t.q.live.wholeFiles)
	if len(out) == 0 && t.q.live.changes != nil {
		out = t.q.live.changes(c)
	}
	return out
}

// outputOf returns what a call printed, and the exit code of a command.
func (t *translator) outputOf(c *call) (string, *int) {
	if term := t.turn.terms[c.terminal]; term != nil {
		return term.text(), term.code
	}
	text, code := c.text(), (*int)(nil)
	if t.q.live.output != nil {
		text, code = t.q.live.output(c)
	}
	if text != "" {
		return text, code
	}
	if s := decodeLoose[string](c.rawOutput); s != "" {
		return s, code
	}
	raw := decodeLoose[struct {
		Message string `json:"message"`
		Error   string `json:"error"`
		Output  string `json:"output"`
	}](c.rawOutput)
	return cmp.Or(raw.Output, raw.Error, raw.Message), code
}

// settle ends what is open of a call when its turn does. A call without an
// output stays without one.
func (t *translator) settle(c *call, whole bool, why event.CancelReason) {
	switch {
	case c.answered:
	case c.completed:
		t.answer(c)
	case whole && c.opened: // it goes on in the background
		t.answer(c)
	case !c.told && whole:
		t.tell(c)
	case !c.told:
		t.emit(event.ItemCancelled{ItemID: c.item, Reason: why})
	case c.opened:
		t.emit(event.ItemCancelled{ItemID: c.item + ":output", Reason: why})
	}
}
