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

// thread is a sequence of native messages within a turn: the main thread or the
// thread of a subagent. An item's id has the message's ordinal, from 1, and the
// block's index, from 0. A message without blocks gets no ordinal, since the
// agent does not store it (recording empty). The agent's own ids are kept in
// Native and are not used as keys.
type thread struct {
	turn     *turn
	parent   string // the call that started the subagent; "" on the main thread
	ids      *translate.Numbering
	next     map[string]int // by native message: index of the next block that was not streamed
	message  string         // id of the current message
	open     map[int]*streamed
	nonItems map[int]bool // blocks of that message that started and are not items
	known    map[int]bool // blocks of that message that started or were received whole
	missing  map[int]bool // blocks of that message that grew or stopped without a start, and were not received whole
}

// streamed is a block that is being streamed and is not final yet.
type streamed struct {
	id      string
	kind    string // of the block
	call    call
	text    []byte
	stopped bool // its stop was received, its assistant frame was not
	broken  bool // its events contradict each other; only its assistant frame has the right content
}

// thread returns the thread of the subagent that a call started; parent is ""
// for the main one.
func (tn *turn) thread(parent string) *thread {
	th := tn.threads[parent]
	if th == nil {
		th = &thread{
			turn: tn, parent: parent, ids: translate.NewNumbering(tn.id, translate.Key(providerID, parent)),
			next: make(map[string]int), open: make(map[int]*streamed), nonItems: make(map[int]bool), known: make(map[int]bool), missing: make(map[int]bool),
		}
		th.ids.Keep(tn.session.shown)
		tn.threads[parent] = th
	}
	return th
}

// stream handles an event of the Messages API.
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

// stream handles an event other than the start of a message.
func (th *thread) stream(f frame) {
	e := f.Event
	switch e.Type {
	case "content_block_start":
		if e.ContentBlock != nil && th.message != "" {
			th.finishStopped()
			th.startBlock(e.Index, *e.ContentBlock)
		}
	case "content_block_delta":
		th.grow(e.Index, e.Delta)
	case "content_block_stop":
		if s := th.block(e.Index); s != nil {
			s.stopped = true // a later line shows whether the block is complete
		}
	case "message_delta":
		th.finishStopped()
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
		th.finishStopped()
	}
}

// grow handles a delta of a block.
func (th *thread) grow(index int, d delta) {
	th.announce(index, d)
	if s := th.block(index); s != nil {
		th.delta(s, d)
	}
}

// announce starts a text or thinking block that grows without a start.
func (th *thread) announce(index int, d delta) {
	kind := ""
	switch d.Type {
	case "text_delta":
		kind = "text"
	case "thinking_delta":
		kind = "thinking"
	}
	if kind != "" && !th.known[index] && th.message != "" {
		th.startBlock(index, block{Type: kind})
	}
}

// block returns the open block with an index; nil if it is not open. A block
// that never started counts as missing until it is received whole.
func (th *thread) block(index int) *streamed {
	if s := th.open[index]; s != nil {
		return s
	}
	if !th.known[index] && len(th.missing) < maxMissing {
		th.missing[index] = true
	}
	return nil
}

// maxMissing bounds the missing blocks that are recorded for a message. One is
// enough to detect a broken stream.
const maxMissing = 100

// startMessage begins a native message. If another message is open, its stream
// broke and the agent repeats it under a new id, so its blocks are cancelled.
func (th *thread) startMessage(m message) {
	if m.ID == th.message { // the start was sent twice
		return
	}
	if len(th.missing) > 0 || th.contradicts() {
		th.turn.emit(translate.BrokenStream)
	}
	th.abandon(0)
	th.enter(m.ID)
	if m.Usage != nil && th.parent == "" {
		th.turn.count(m.ID, *m.Usage)
	}
}

// contradicts reports whether a broken block is open.
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
	clear(th.nonItems)
}

// startItem returns the ItemStart of a block. Its type is empty if the block is
// not an item, such as encrypted thinking.
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

// startBlock begins a streamed block. A block that is not an item only occupies
// an index.
func (th *thread) startBlock(index int, b block) {
	th.next[th.message] = max(th.next[th.message], index+1)
	start := th.startItem(th.ids.ID(th.message, index), th.message, b)
	if s := th.open[index]; s != nil { // the block starts twice
		s.broken = true
		return
	}
	seen := th.known[index]
	th.known[index] = true
	delete(th.missing, index)
	if start.ItemType == "" || seen {
		th.nonItems[index] = start.ItemType == ""
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

// delta appends to a block. The text is kept, up to a bound, because the
// assistant frame may be missing.
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

// finishStopped finishes the blocks that stopped without an assistant frame.
// The agent prints no assistant frame for text that is only white space.
func (th *thread) finishStopped() {
	for _, i := range slices.Sorted(maps.Keys(th.open)) {
		s := th.open[i]
		if !s.stopped || s.broken {
			continue
		}
		if s.kind == "text" && strings.TrimSpace(string(s.text)) != "" {
			th.turn.unconfirmed = string(s.text)
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
	maps.DeleteFunc(th.missing, func(i int, _ bool) bool { return i >= from })
}

// assistant handles finished blocks, usually one in a frame. They replace the
// streamed content, because the agent may have normalised the arguments.
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

// repeated records the id of a frame and reports whether the turn already had
// it.
func (tn *turn) repeated(frameID string) bool {
	if frameID == "" || tn.frames[frameID] {
		return frameID != ""
	}
	tn.frames[frameID] = true
	return false
}

// finished handles finished blocks of a message. from is the index of the first
// block; nil if it is not known.
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
	if th.parent != "" { // usage counts only the main thread, as the agent's result does
		return
	}
	th.turn.stop = m.StopReason
	if m.Usage != nil && m.StopReason != "" { // without a stop reason, the usage repeats the one of message_start
		th.turn.use(m.ID, *m.Usage)
	}
}

// whole handles a finished block, whether it was streamed or not.
func (th *thread) whole(messageID string, b block) {
	if b.Type == "tool_use" && (b.ID == "" || b.Name == "") {
		b.Type = "" // not an item, but it occupies an index
	}
	th.turn.unconfirmed = ""
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

// unstreamed returns the index of a finished block that is not open.
func (th *thread) unstreamed(messageID string, b block) int {
	if messageID == th.message {
		if th.startItem("", messageID, b).ItemType == "" {
			for _, i := range slices.Sorted(maps.Keys(th.nonItems)) {
				delete(th.nonItems, i)
				return i
			}
		}
		for _, i := range slices.Sorted(maps.Keys(th.missing)) { // assume that it is the first missing block
			delete(th.missing, i)
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

// takeStreamed removes and returns the open block that a finished block
// completes; nil if there is none.
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

// finish completes an item with its final block.
func (tn *turn) finish(id string, b block) {
	switch b.Type {
	case "text":
		tn.lastText = b.Text
		tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: b.Text, Origin: event.OriginAgent}})
	case "thinking":
		tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Reasoning{Content: b.Thinking, ProviderID: providerID}})
	case "tool_use":
		tn.finishCall(&call{item: id, id: b.ID, name: b.Name, input: translate.Arguments(b.Input)})
	}
}

// synthetic handles a message that the agent wrote instead of the model: the
// reason of a failure, or the output of a slash command.
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

// printed emits the output of a slash command that the agent ran itself.
func (tn *turn) printed(nativeID, output string) {
	id := tn.thread("").ids.ID("local "+nativeID, 0)
	tn.emit(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
	output, _ = text.Cut(output, event.MaxOutput)
	tn.lastText = output
	tn.emit(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: output, Origin: event.OriginSystem}})
}

// harness handles text in a user message that the agent itself wrote.
func (ts *turns) harness(f frame) {
	if f.Refused != "" {
		ts.notice(event.LevelWarning, "REFUSED", "The model declined to continue; the agent asks it once more.")
	}
	ts.skill(f.Message.Content.text())
}

// skill emits the file of each skill that such a text names. It reports whether
// the text names any.
func (ts *turns) skill(note string) (found bool) {
	for _, m := range skillDir.FindAllStringSubmatch(note, maxSkills) {
		ts.session.reportFile(ts.emitter(), "skill", skillFile(m[1]))
		found = true
	}
	return found
}

// maxSkills bounds the skills that are read from one text.
const maxSkills = 100

// ofUser returns a prompt as an item, and the warning about rejected
// attachments that was sent before the prompt's text; "" if there was none.
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
			Name: text.OneLine(b.Title, 200), MediaType: text.OneLine(b.Source.MediaType, 100), Size: b.Source.byteSize(), Picture: b.Source.pictureID(nil),
		})
	}
	return out
}

// byteSize returns the size of the content, in bytes.
func (s *source) byteSize() int64 {
	switch {
	case s.size > 0:
		return s.size
	case s.Type == "base64":
		return translate.Base64Size(s.Data)
	}
	return int64(len(s.Data))
}

// pictureID returns the id of an image, or "". For keep see
// [translate.Picture].
func (s *source) pictureID(keep func([]byte)) string {
	if s.picture != "" || s.Type != "base64" {
		return s.picture
	}
	return translate.Picture(s.Data, keep)
}

// dropData replaces the data of images and documents by their sizes and ids, so
// that a stored conversation does not hold all of them in memory. For keep see
// [translate.Picture].
func (c content) dropData(keep func([]byte)) {
	for _, b := range c {
		if b.Source != nil {
			b.Source.size, b.Source.picture = b.Source.byteSize(), b.Source.pictureID(keep)
			b.Source.Data = ""
		}
	}
}
