package claude

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// thread is a line of native messages within a turn: the main one or a
// subagent's. Its items have ids from the message's ordinal, from 1, and the
// block's index, from 0. A message without blocks takes no number, since the
// agent does not store it (empty). Ids that the agent made are kept in Native and are not
// keys.
type thread struct {
	turn    *turn
	parent  string // the call that started the subagent; "" on the main thread
	ids     *translate.Numbering
	next    map[string]int // by native message: index of the next block that comes whole
	message string         // the one being streamed
	open    map[int]*streamed
	plain   map[int]bool // blocks of that message that were announced and are no items
	known   map[int]bool // blocks of that message which were announced or came whole
	lost    map[int]bool // blocks of that message which were not announced and have not come whole
}

// streamed is a block whose deltas arrive and which is not final.
type streamed struct {
	id      string
	kind    string // of the block
	call    call
	text    []byte
	stopped bool // its stop came, but not its assistant frame
	broken  bool // its events contradict each other: only its assistant frame tells what it is
}

// thread returns the thread of the subagent that a call started; parent is ""
// for the main one.
func (tn *turn) thread(parent string) *thread {
	th := tn.threads[parent]
	if th == nil {
		th = &thread{
			turn: tn, parent: parent, ids: translate.NewNumbering(tn.id, translate.Key(providerID, parent)),
			next: make(map[string]int), open: make(map[int]*streamed), plain: make(map[int]bool), known: make(map[int]bool), lost: make(map[int]bool),
		}
		tn.threads[parent] = th
	}
	return th
}

// stream takes an event of the Messages API. Only the main thread streams.
func (ts *turns) stream(f frame) {
	e := f.Event
	switch {
	case e == nil:
	case e.Type == "message_start" && e.Message != nil && e.Message.ID != "":
		if tn := ts.running(e.Message.ID); tn != nil {
			tn.thread(f.ParentToolUseID).startMessage(*e.Message)
		}
	case e.Type != "message_start" && ts.current != nil:
		if tn := ts.running(""); tn != nil {
			tn.thread(f.ParentToolUseID).stream(f)
		}
	}
}

// stream takes an event that is not the start of a message.
func (th *thread) stream(f frame) {
	e := f.Event
	switch e.Type {
	case "content_block_start":
		if e.ContentBlock != nil && th.message != "" {
			th.settle()
			th.startBlock(e.Index, *e.ContentBlock)
		}
	case "content_block_delta":
		th.announce(e.Index, e.Delta)
		if s := th.block(e.Index); s != nil {
			th.delta(s, e.Delta)
		}
	case "content_block_stop":
		if s := th.block(e.Index); s != nil {
			s.stopped = true // finished or broken: a later line tells which
		}
	case "message_delta":
		th.settle()
		if e.Usage != nil && th.parent == "" {
			th.turn.use(th.message, *e.Usage)
		}
	case "message_stop":
		a := f.Abandoned
		if a == nil {
			a = e.Abandoned
		}
		if a != nil {
			th.abandon(a.FromBlockIndex)
		}
		th.settle()
	}
}

// announce begins a text that grows without having started.
func (th *thread) announce(index int, d delta) {
	kind, ok := map[string]string{"text_delta": "text", "thinking_delta": "thinking"}[d.Type]
	if ok && !th.known[index] && th.message != "" {
		th.startBlock(index, block{Type: kind})
	}
}

// block returns the open block that an event is about; nil if it is not open. A
// block that was never announced counts as lost until it comes whole.
func (th *thread) block(index int) *streamed {
	if s := th.open[index]; s != nil {
		return s
	}
	if !th.known[index] && len(th.lost) < maxLost {
		th.lost[index] = true
	}
	return nil
}

// maxLost bounds how many lost blocks of a message are remembered: one is
// enough to know that something is missing.
const maxLost = 100

// startMessage begins a native message. If another one was open, its stream
// broke and is tried again under a new id.
func (th *thread) startMessage(m message) {
	if m.ID == th.message { // announced twice
		return
	}
	if len(th.lost) > 0 || th.contradicts() {
		th.turn.emit(translate.BrokenStream)
	}
	th.abandon(0)
	th.enter(m.ID)
	if m.Usage != nil && th.parent == "" {
		th.turn.count(m.ID, *m.Usage)
	}
}

// contradicts reports whether a block is open of which only its assistant frame
// tells what it is.
func (th *thread) contradicts() bool {
	for _, s := range th.open {
		if s.broken {
			return true
		}
	}
	return false
}

// enter makes a message the current one.
func (th *thread) enter(messageID string) {
	th.message = messageID
	clear(th.known)
	clear(th.plain)
}

// startItem returns the ItemStart of a block. It has no type if the block is no
// item, such as encrypted thinking.
func (th *thread) startItem(id, messageID string, b block) event.ItemStart {
	start := event.ItemStart{ItemID: id, ParentCallID: th.parent, Native: map[string]string{"messageId": messageID}}
	switch {
	case b.Type == "text":
		start.ItemType = event.TypeMessage
	case b.Type == "thinking":
		start.ItemType = event.TypeReasoning
	case b.Type == "tool_use" && b.ID != "" && b.Name != "":
		start.ItemType, start.CallID, start.Name = event.TypeFunctionCall, b.ID, b.Name
	}
	return start
}

// startBlock begins a block that will stream. A block that is no item only
// takes its index.
func (th *thread) startBlock(index int, b block) {
	th.next[th.message] = max(th.next[th.message], index+1)
	start := th.startItem(th.ids.ID(th.message, index), th.message, b)
	if s := th.open[index]; s != nil { // a block that starts twice
		s.broken = true
		return
	}
	seen := th.known[index]
	th.known[index] = true
	delete(th.lost, index)
	if start.ItemType == "" || seen {
		th.plain[index] = start.ItemType == ""
		return
	}
	switch b.Type {
	case "text":
		start.InitialContent = b.Text
	case "thinking":
		start.InitialContent = b.Thinking
	}
	s := &streamed{id: start.ItemID, kind: b.Type, call: call{item: start.ItemID, id: start.CallID, name: start.Name}}
	s.text = append(s.text, start.InitialContent...)
	th.open[index] = s
	th.turn.emit(start)
}

// delta grows a block. Its text is kept, up to a bound, in case its final form
// does not come.
func (th *thread) delta(s *streamed, d delta) {
	grown := ""
	switch d.Type {
	case "text_delta":
		grown = d.Text
	case "thinking_delta":
		grown = d.Thinking
	case "input_json_delta":
		grown = d.PartialJSON
	}
	if grown == "" {
		return
	}
	if s.broken = s.broken || s.stopped; s.broken {
		return
	}
	if len(s.text)+len(grown) <= translate.MaxText {
		s.text = append(s.text, grown...)
	}
	th.turn.emit(event.ItemDelta{ItemID: s.id, DeltaContent: grown})
}

// settle finishes the blocks that stopped without an assistant frame: the agent
// prints none for text that is only space.
func (th *thread) settle() {
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		s := th.open[i]
		if !s.stopped || s.broken {
			continue
		}
		if s.kind == "text" && strings.TrimSpace(string(s.text)) != "" {
			th.turn.unsure = string(s.text)
		}
		b := block{Type: s.kind, Text: string(s.text), Thinking: string(s.text), ID: s.call.id, Name: s.call.name, Input: s.text}
		if s.kind == "tool_use" && !json.Valid(s.text) {
			th.turn.emit(event.ItemCancelled{ItemID: s.id})
		} else {
			th.turn.finish(s.id, b)
		}
		delete(th.open, i)
	}
}

// abandon cancels the open blocks of a thread from an index on.
func (th *thread) abandon(from int) {
	var why event.CancelReason
	if th.turn.interrupted {
		why = event.ReasonUserCancel
	}
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		if i >= from {
			th.turn.emit(event.ItemCancelled{ItemID: th.open[i].id, Reason: why})
			delete(th.open, i)
		}
	}
	maps.DeleteFunc(th.lost, func(i int, _ bool) bool { return i >= from })
}

// assistant takes finished blocks, one a frame as a rule. They are the
// authority: arguments may have been normalised since they were streamed.
func (ts *turns) assistant(f frame) {
	m := f.Message
	if m == nil || m.ID == "" {
		return
	}
	if m.Model == syntheticModel {
		ts.synthetic(f)
		return
	}
	if tn := ts.running(m.ID); tn != nil && !tn.repeated(f.UUID) {
		tn.thread(f.ParentToolUseID).finished(m, f.BlockIndex)
	}
}

// repeated takes the id of a frame, and reports whether the turn had it before.
func (tn *turn) repeated(frameID string) bool {
	if frameID == "" || tn.frames[frameID] {
		return frameID != ""
	}
	tn.frames[frameID] = true
	return false
}

// finished takes finished blocks of a message. from is the index of the first;
// nil if it is not known.
func (th *thread) finished(m *message, from *int) {
	if th.message != m.ID {
		if th.message != "" {
			th.abandon(0)
		}
		th.enter(m.ID)
	}
	if from != nil {
		th.next[m.ID] = *from
	}
	for _, b := range m.Content {
		th.whole(m.ID, b)
	}
	if th.parent != "" { // a result counts the main thread only, and so do we
		return
	}
	th.turn.stop = m.StopReason
	if m.Usage != nil && m.StopReason != "" { // the frames of a stream repeat its beginning
		th.turn.use(m.ID, *m.Usage)
	}
}

// whole takes a finished block, whether it was streamed before or not.
func (th *thread) whole(messageID string, b block) {
	if b.Type == "tool_use" && (b.ID == "" || b.Name == "") {
		b.Type = "" // no item; it only takes its index
	}
	th.turn.unsure = ""
	if s := th.takeStreamed(messageID, b); s != nil {
		th.turn.finish(s.id, b)
		return
	}
	index := th.unstreamed(messageID, b)
	start := th.startItem(th.ids.ID(messageID, index), messageID, b)
	if start.ItemType == "" || b.Type == "tool_use" && th.turn.calls[b.ID] != nil {
		return
	}
	th.turn.emit(start)
	th.turn.finish(start.ItemID, b)
}

// unstreamed returns the index of a block that came whole and is not open.
func (th *thread) unstreamed(messageID string, b block) int {
	if messageID == th.message {
		if th.startItem("", messageID, b).ItemType == "" {
			for _, i := range slices.Sorted(maps.Keys(th.plain)) {
				delete(th.plain, i)
				return i
			}
		}
		for _, i := range slices.Sorted(maps.Keys(th.lost)) { // it is the first lost one
			delete(th.lost, i)
			th.known[i] = true
			th.next[messageID] = max(th.next[messageID], i+1)
			return i
		}
	}
	index := th.next[messageID]
	th.next[messageID]++
	if messageID == th.message {
		th.known[index] = true
	}
	return index
}

// takeStreamed removes and returns the open block that a finished one
// completes, nil if there is none.
func (th *thread) takeStreamed(messageID string, b block) *streamed {
	if th.message != messageID {
		return nil
	}
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		s := th.open[i]
		if s.kind == b.Type && (s.kind != "tool_use" || s.call.id == b.ID) {
			delete(th.open, i)
			return s
		}
	}
	return nil
}

// finish ends an item with a final block.
func (tn *turn) finish(id string, b block) {
	switch b.Type {
	case "text":
		tn.said = b.Text
		tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: b.Text, Origin: event.OriginAgent}})
	case "thinking":
		tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Reasoning{Content: b.Thinking, ProviderID: providerID}})
	case "tool_use":
		tn.called(&call{item: id, id: b.ID, name: b.Name, input: translate.Arguments(b.Input)})
	}
}

// synthetic takes a message that the agent wrote itself, in the model's place:
// the reason of a failure, or what a slash command printed.
func (ts *turns) synthetic(f frame) {
	printed := strings.TrimSpace(f.Message.Content.text())
	switch {
	case f.Error != "":
		if ts.current != nil {
			ts.current.failure = f.Error
		}
	case printed == "" || printed == noResponseRequested || printed == noContent:
	default:
		if tn := ts.running(f.Message.ID); tn != nil {
			tn.printed(f.Message.ID, printed)
		}
	}
}

// printed takes what a slash command of the agent's own printed.
func (tn *turn) printed(nativeID, output string) {
	id := tn.thread("").ids.ID("local "+nativeID, 0)
	tn.emit(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
	output, _ = text.Cut(output, event.MaxOutput)
	tn.said = output
	tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: output, Origin: event.OriginSystem}})
}

// harness takes what the agent's harness wrote in a message in the user's
// place.
func (ts *turns) harness(f frame) {
	if f.Refused != "" {
		ts.notice(event.LevelWarning, "REFUSED", "The model declined to go on; the agent asks it once more.")
	}
	ts.skill(f.Message.Content.text())
}

// skill reports the files of skills if the harness tells the model of any, and
// reports whether it does. The text may say more, before and after.
func (ts *turns) skill(said string) (found bool) {
	for _, m := range skillDir.FindAllStringSubmatch(said, maxSkills) {
		ts.session.reportFile(ts.emitter(), "skill", skillFile(m[1]))
		found = true
	}
	return found
}

// maxSkills bounds the skills that are read from one text.
const maxSkills = 100

// ofUser returns a prompt as an item, and the warning about rejected attachments
// that went before it, "" if there was none.
func (m message) ofUser() (prompt event.Message, warning string) {
	c, warning := m.Content.withoutWarning()
	return event.Message{Content: c.text(), Origin: event.OriginUser, Attachments: attachments(c)}, warning
}

// withoutWarning returns a prompt without the block about its rejected
// attachments, and that block's text.
func (c content) withoutWarning() (content, string) {
	if len(c) > 1 && c[0].Type == "text" {
		if warning, rest := runnel.CutWarning(c[0].Text); warning != "" && rest == "" {
			return c[1:], warning
		}
	}
	return c, ""
}

// attachments returns the images and documents of a prompt.
func attachments(c content) []event.Attachment {
	var out []event.Attachment
	for _, b := range c {
		if b.Source == nil || (b.Type != "image" && b.Type != "document") {
			continue
		}
		out = append(out, event.Attachment{
			Name: text.OneLine(b.Title, 200), MediaType: text.OneLine(b.Source.MediaType, 100), Size: b.Source.weight(),
		})
	}
	return out
}

// weight returns the size of the content, in bytes.
func (s *source) weight() int64 {
	switch {
	case s.size > 0:
		return s.size
	case s.Type == "base64":
		return translate.Base64Size(s.Data)
	}
	return int64(len(s.Data))
}

// weigh replaces images and documents by their sizes, so that a stored
// conversation does not hold all of them in memory.
func (c content) weigh() {
	for _, b := range c {
		if b.Source != nil {
			b.Source.size, b.Source.Data = b.Source.weight(), ""
		}
	}
}
