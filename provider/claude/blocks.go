package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// thread is a line of native messages: the main one or a subagent's.
type thread struct {
	prefix   string         // of its items' ids
	parent   string         // the call that started the subagent; "" on the main thread
	ordinals map[string]int // by native message
	next     map[string]int // by native message: index of the next block that comes whole
	message  string         // the one being streamed
	open     map[int]*streamed
}

// streamed is a block whose deltas arrive and which is not final.
type streamed struct {
	id      string
	kind    string // of the block
	call    call
	text    []byte
	stopped bool // its stop came, but not its assistant frame
}

// call is a tool call.
type call struct {
	item     string
	id       string
	name     string
	input    json.RawMessage
	answered bool
}

// thread returns the thread for a frame.
func (tn *turn) thread(parent string) *thread {
	th := tn.threads[parent]
	if th == nil {
		prefix := tn.id + ":"
		if parent != "" {
			prefix += key(parent) + "/"
		}
		th = &thread{
			prefix: prefix, parent: parent, ordinals: make(map[string]int),
			next: make(map[string]int), open: make(map[int]*streamed),
		}
		tn.threads[parent] = th
	}
	return th
}

// item returns the id of a block.
func (th *thread) item(message string, index int) string {
	if th.ordinals[message] == 0 {
		th.ordinals[message] = len(th.ordinals) + 1
	}
	return fmt.Sprintf("%s%d:%d", th.prefix, th.ordinals[message], index)
}

// stream takes an event of the Messages API. Only the main thread streams.
func (t *translator) stream(f frame) {
	e := f.Event
	if e == nil {
		return
	}
	if e.Type == "message_start" && e.Message != nil && e.Message.ID != "" {
		if tn := t.running(e.Message.ID); tn != nil {
			t.startMessage(tn, tn.thread(f.ParentToolUseID), *e.Message)
		}
		return
	}
	if t.turn == nil {
		return
	}
	tn := t.running("")
	if tn == nil {
		return
	}
	th := tn.thread(f.ParentToolUseID)
	switch e.Type {
	case "content_block_start":
		if e.ContentBlock != nil && th.message != "" {
			t.settle(tn, th)
			t.startBlock(th, e.Index, *e.ContentBlock)
		}
	case "content_block_delta":
		t.delta(th.open[e.Index], e.Delta)
	case "content_block_stop":
		if s := th.open[e.Index]; s != nil {
			s.stopped = true // which of the two it was, finished or broken, is said later
		}
	case "message_delta":
		t.settle(tn, th)
		if e.Usage != nil {
			t.use(tn, th, th.message, *e.Usage)
		}
	case "message_stop":
		if a := cmpAbandoned(f.Abandoned, e.Abandoned); a != nil {
			t.abandon(th, a.FromBlockIndex)
		}
		t.settle(tn, th)
	}
}

func cmpAbandoned(a, b *abandoned) *abandoned {
	if a != nil {
		return a
	}
	return b
}

func (t *translator) startMessage(tn *turn, th *thread, m message) {
	t.abandon(th, 0) // the stream broke and is tried again under a new id
	th.message = m.ID
	th.item(m.ID, 0) // takes its ordinal
	if m.Usage != nil {
		t.count(tn, th, m.ID, *m.Usage)
	}
}

// startBlock announces a block that will stream. Blocks that a reader has no
// use for, such as encrypted thinking, only take their index.
func (t *translator) startBlock(th *thread, index int, b block) {
	th.next[th.message] = max(th.next[th.message], index+1)
	s := &streamed{id: th.item(th.message, index), kind: b.Type}
	start := event.ItemStart{ItemID: s.id, ParentCallID: th.parent, Native: map[string]string{"messageId": th.message}}
	switch b.Type {
	case "text":
		start.ItemType, start.InitialContent = event.TypeMessage, b.Text
	case "thinking":
		start.ItemType, start.InitialContent = event.TypeReasoning, b.Thinking
	case "tool_use":
		if b.ID == "" || b.Name == "" {
			return
		}
		s.call = call{item: s.id, id: b.ID, name: b.Name}
		start.ItemType, start.CallID, start.Name = event.TypeFunctionCall, b.ID, b.Name
	default:
		return
	}
	if th.open[index] != nil { // a block that starts twice
		t.emit(event.ItemCancelled{ItemID: th.open[index].id})
		return
	}
	s.text = append(s.text, start.InitialContent...)
	th.open[index] = s
	t.emit(start)
}

// maxStreamed bounds what is kept of a block in case its final form does not come.
const maxStreamed = 8 << 20

func (t *translator) delta(s *streamed, d delta) {
	if s == nil || s.stopped {
		return
	}
	text := ""
	switch d.Type {
	case "text_delta":
		text = d.Text
	case "thinking_delta":
		text = d.Thinking
	case "input_json_delta":
		text = d.PartialJSON
	}
	if text == "" {
		return
	}
	if len(s.text)+len(text) <= maxStreamed {
		s.text = append(s.text, text...)
	}
	t.emit(event.ItemDelta{ItemID: s.id, DeltaContent: text})
}

// settle finishes the blocks that stopped without an assistant frame: text of
// nothing but space has none.
func (t *translator) settle(tn *turn, th *thread) {
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		s := th.open[i]
		if !s.stopped {
			continue
		}
		b := block{Type: s.kind, Text: string(s.text), Thinking: string(s.text), ID: s.call.id, Name: s.call.name, Input: s.text}
		if s.kind == "tool_use" && !json.Valid(s.text) {
			t.emit(event.ItemCancelled{ItemID: s.id})
		} else {
			t.finish(tn, s.id, b)
		}
		delete(th.open, i)
	}
}

// abandon cancels the open blocks of a thread from an index on.
func (t *translator) abandon(th *thread, from int) {
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		if i < from {
			continue
		}
		var why event.CancelReason
		if t.turn.interrupted {
			why = event.ReasonUserCancel
		}
		t.emit(event.ItemCancelled{ItemID: th.open[i].id, Reason: why})
		delete(th.open, i)
	}
}

// assistant takes finished blocks, one a frame as a rule. They are the
// authority: arguments may have been normalised since they were streamed.
func (t *translator) assistant(f frame) {
	m := f.Message
	if m == nil || m.ID == "" {
		return
	}
	if m.Model == syntheticModel {
		t.synthetic(f)
		return
	}
	tn := t.running(m.ID)
	if tn == nil {
		return
	}
	th := tn.thread(f.ParentToolUseID)
	if th.message != "" && th.message != m.ID {
		t.abandon(th, 0)
		th.message = ""
	}
	if f.BlockIndex != nil {
		th.next[m.ID] = *f.BlockIndex
	}
	for _, b := range m.Content {
		t.whole(tn, th, m.ID, b)
	}
	if th.parent == "" {
		tn.stop = m.StopReason
	}
	if m.Usage != nil && m.StopReason != "" { // the frames of a stream repeat its beginning
		t.use(tn, th, m.ID, *m.Usage)
	}
}

// whole takes a finished block, whether it was streamed before or not.
func (t *translator) whole(tn *turn, th *thread, messageID string, b block) {
	if b.Type == "tool_use" && (b.ID == "" || b.Name == "") {
		b.Type = "" // it takes its index and is nothing more
	}
	if th.message == messageID {
		for _, i := range slices.Sorted(maps.Keys(th.open)) {
			s := th.open[i]
			if s.kind == b.Type && (s.kind != "tool_use" || s.call.id == b.ID) {
				delete(th.open, i)
				t.finish(tn, s.id, b)
				return
			}
		}
	}
	index := th.next[messageID]
	th.next[messageID]++
	id := th.item(messageID, index)
	start := event.ItemStart{ItemID: id, ParentCallID: th.parent, Native: map[string]string{"messageId": messageID}}
	switch b.Type {
	case "text":
		start.ItemType = event.TypeMessage
	case "thinking":
		start.ItemType = event.TypeReasoning
	case "tool_use":
		if tn.calls[b.ID] != nil {
			return
		}
		start.ItemType, start.CallID, start.Name = event.TypeFunctionCall, b.ID, b.Name
	default:
		return
	}
	t.emit(start)
	t.finish(tn, id, b)
}

// finish ends an item with a final block.
func (t *translator) finish(tn *turn, id string, b block) {
	switch b.Type {
	case "text":
		t.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: b.Text, Origin: event.OriginAgent}})
	case "thinking":
		t.emit(event.ItemDone{ItemID: id, FinalItem: event.Reasoning{Content: b.Thinking, ProviderID: providerID}})
	case "tool_use":
		if len(b.Input) == 0 {
			b.Input = json.RawMessage("{}")
		}
		tn.calls[b.ID] = &call{item: id, id: b.ID, name: b.Name, input: b.Input}
		t.emit(event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{
			Name: b.Name, CallID: b.ID, Arguments: b.Input,
			Kind: toolKind(b.Name), Title: toolTitle(b.Name, b.Input), Locations: toolLocations(b.Input),
		}})
		if b.Name == "ExitPlanMode" {
			t.names("plan", decodeLoose[exitPlan](b.Input).PlanFilePath)
		}
	}
}

// use counts what a message used and says so.
func (t *translator) use(tn *turn, th *thread, messageID string, u usage) {
	if t.count(tn, th, messageID, u) {
		t.emit(event.UsageUpdated{Usage: tn.sum(), ContextTokens: tn.context})
	}
}

// count reports whether the numbers are new.
func (t *translator) count(tn *turn, th *thread, messageID string, u usage) bool {
	if messageID == "" || th.parent != "" || tn.used[messageID] == u {
		return false // a result counts the main thread only, and so do we
	}
	tn.used[messageID] = u
	tn.context = u.context()
	return true
}

// synthetic takes a message that the agent wrote itself, in the model's place:
// the reason of a failure, or what a slash command printed.
func (t *translator) synthetic(f frame) {
	text := strings.TrimSpace(f.Message.Content.text())
	switch {
	case f.Error != "":
		if t.turn != nil {
			t.turn.failure = f.Error
		}
	case text == "" || text == noResponseRequested || text == noContent:
	default:
		t.local(f.Message.ID, text)
	}
}

// local shows what a command of the agent's own printed.
func (t *translator) local(nativeID, text string) {
	tn := t.running(nativeID)
	if tn == nil {
		return
	}
	id := tn.thread("").item("local "+nativeID, 0)
	t.emit(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
	text, _ = cut(text, event.MaxOutput)
	t.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: event.OriginSystem}})
}

// user takes the results of tools. Text in such frames is the harness's own.
func (t *translator) user(f frame) {
	if f.Message == nil || f.IsReplay {
		return
	}
	if f.Refused != "" {
		t.notice(event.LevelWarning, "REFUSED", "The model declined to go on; the agent asks it once more.")
	}
	if f.IsSynthetic {
		t.skill(f.Message.Content.text())
	}
	if t.turn == nil {
		t.skipped++
		return
	}
	for _, b := range f.Message.Content {
		if b.Type == "tool_result" && b.ToolUseID != "" {
			t.output(f, b)
		}
	}
}

func (t *translator) output(f frame, b block) {
	tn := t.running("")
	if tn == nil {
		return
	}
	c := tn.calls[b.ToolUseID]
	if c == nil { // the call was not seen: in an earlier turn, or never
		c = &call{item: tn.id + ":" + key(b.ToolUseID), id: b.ToolUseID}
		tn.calls[b.ToolUseID] = c
	}
	if c.answered {
		return
	}
	c.answered = true
	if id := taskID(f.ToolUseResult); id != "" && len(t.behind) < maxAgents {
		t.behind[id] = true
	}
	if isAsync(f.ToolUseResult) {
		t.background(c.id).name = oneLine(decodeLoose[toolInput](c.input).Description, 200)
	}
	id := c.item + ":output"
	t.emit(event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCallOutput, CallID: c.id, Name: c.name, ParentCallID: f.ParentToolUseID})
	out := toolOutput(*c, b, f.ToolUseResult)
	t.emit(event.ItemDone{ItemID: id, FinalItem: out})
	t.planned(*c, out, f.ToolUseResult, f.ParentToolUseID)
}
