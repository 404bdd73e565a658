package acp

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// threads holds the threads of a turn: the main thread, and one thread for each
// subagent.
type threads struct {
	turn     string // id of the turn
	out      translate.TurnEmitter
	session  *session // read only
	byParent map[string]*thread
}

// thread is the sequence of messages and calls of the main agent or of one
// subagent. It owns the open message and numbers the items.
type thread struct {
	out     translate.TurnEmitter
	session *session // read only
	parent  string   // the call that started the subagent; "" on the main thread

	ids      *translate.Numbering
	nameless int                     // messages without an id
	kinds    map[event.ItemType]bool // item types of the last message without an id; nil once another item began
	open     *message                // the message that is being streamed, or nil
	latest   map[string]string       // version 2: final text of each message, by its native id
	last     string                  // text of the last message
	lastID   string                  // native id of the last message
}

// message is a message or a reasoning item that is being streamed.
type message struct {
	id     string
	typ    event.ItemType
	native string // the agent's id; "" if it has none
	text   strings.Builder
}

// of returns the thread of the subagent that the call parent started, or the
// main thread if parent is "".
func (ts *threads) of(parent string) *thread {
	th := ts.byParent[parent]
	if th == nil {
		th = &thread{
			out: ts.out, session: ts.session, parent: parent,
			ids: translate.NewNumbering(ts.turn, key(parent)), latest: make(map[string]string),
		}
		ts.byParent[parent] = th
	}
	return th
}

// start emits the start of a message and makes it the open message.
func (th *thread) start(typ event.ItemType, native string) *message {
	start := event.ItemStart{ItemType: typ, ParentCallID: th.parent}
	if native == "" {
		start.ItemID = th.namelessID(typ)
	} else {
		start.ItemID = th.ids.Next("message " + native)
		if len(native) <= 200 {
			start.Native = map[string]string{"messageId": native}
		}
	}
	th.open = &message{id: start.ItemID, typ: typ, native: native}
	th.out.Emit(start)
	return th.open
}

// namelessID returns the item id of a message without a native id. Reasoning
// and the text after it form one message. The text always has block number 0,
// so its id stays the same if the agent omits the reasoning from a replay.
func (th *thread) namelessID(typ event.ItemType) string {
	if th.kinds == nil || th.kinds[typ] {
		th.nameless++
		th.kinds = make(map[event.ItemType]bool)
	}
	th.kinds[typ] = true
	block := 0
	if typ == event.TypeReasoning {
		block = 1
	}
	return th.ids.ID("message #"+itoa(th.nameless), block)
}

// grow appends words to the open message, after separator. If the open message
// is another one, grow ends it and starts a new message with words. It drops
// text beyond translate.MaxText bytes.
func (th *thread) grow(typ event.ItemType, native, words, separator string) {
	m := th.open
	if m == nil || m.typ != typ || m.native != native {
		if typ == event.TypeReasoning { // in a live turn, codex-acp sends leading line breaks that its replay lacks
			if words = strings.TrimLeft(words, "\r\n"); strings.TrimSpace(words) == "" {
				return
			}
		}
		th.close()
		m = th.start(typ, native)
	} else {
		words = separator + words
	}
	if m.text.Len()+len(words) > translate.MaxText {
		return
	}
	m.text.WriteString(words)
	if typ == event.TypeMessage {
		th.last, th.lastID = m.text.String(), native
	}
	th.out.Emit(event.ItemDelta{ItemID: m.id, DeltaContent: words})
}

// replace sets the whole text of a message so far. If the open message has the
// same id and its text is a prefix of words, replace appends the rest.
// Otherwise it cancels the open message and starts a new one. Later chunks are
// appended. It ignores an update that repeats the text of a message that has
// ended.
func (th *thread) replace(typ event.ItemType, native, words, separator string) {
	if m := th.open; m != nil && m.typ == typ && m.native == native {
		rest, grown := strings.CutPrefix(words, m.text.String())
		if grown && rest == "" {
			return
		}
		if grown {
			th.grow(typ, native, rest, separator)
			return
		}
		th.cancel("")
	} else if th.latest[native] == words {
		return
	}
	th.grow(typ, native, words, separator)
}

// close ends the open message, if any.
func (th *thread) close() {
	m := th.open
	if m == nil {
		return
	}
	th.open = nil
	words := m.text.String()
	if th.session.version >= 2 && m.native != "" {
		th.latest[m.native] = words
	}
	var final event.FinalItem = event.Message{Content: words, Origin: event.OriginAgent}
	if m.typ == event.TypeReasoning {
		final = event.Reasoning{Content: words, ProviderID: th.session.agent.Name}
	}
	th.out.Emit(event.ItemDone{ItemID: m.id, FinalItem: final})
}

// cancel emits the cancellation of the open message, if any.
func (th *thread) cancel(why event.CancelReason) {
	if th.open != nil {
		th.out.Emit(event.ItemCancelled{ItemID: th.open.id, Reason: why})
		th.open = nil
	}
}

// interrupt ends the open message before another item starts. Later text
// without a native id starts a new message.
func (th *thread) interrupt() {
	th.close()
	th.kinds = nil
}

// callEnded ends an open message without a native id. A message with a native
// id may continue after the call.
func (th *thread) callEnded() {
	th.kinds = nil
	if th.open != nil && th.open.native == "" {
		th.close()
	}
}

// A textUpdate is the part of an update that a chunk of a message has.
type textUpdate struct {
	words     string
	messageID string
	meta      json.RawMessage
}

func textOfUpdate(u update) textUpdate {
	return textUpdate{textOf(u.Content), u.MessageID, u.UpdateMeta}
}

// chunk handles a chunk of a message. A message without an id continues until
// another item starts.
func (t *translator) chunk(typ event.ItemType, u textUpdate, parent string) {
	if f := t.session.q.live.callUsage; f != nil {
		t.turns.now.add(f(u.meta))
		if t.replay == nil && t.turns.now.used != nil { // a budget may end the turn
			tn := t.turns.startedTurn()
			tn.showUsage(t.turns.turnUsage(tn.used))
		}
	}
	words := u.words
	if words == "" || slices.Contains(t.session.q.live.unsaid, words) {
		return
	}
	t.session.named = t.session.named || u.messageID != ""
	tn := t.turns.startedTurn()
	main := tn.threads.of("")
	isAgentText := t.session.q.live.isAgentText
	if typ == event.TypeMessage && u.messageID == "" && main.open == nil && t.replay == nil && isAgentText != nil && isAgentText(words) {
		main.last, main.lastID = words, ""
		t.outOfTurnText.add(words)
		return
	}
	th := tn.threads.of(cmp.Or(parent, t.session.q.parentOf(u.meta)))
	th.grow(typ, u.messageID, words, t.paragraph(typ))
}

// whole handles a message update of version 2, which has the whole text so far.
func (t *translator) whole(typ event.ItemType, u update, parent string) {
	words := textOf(u.Content)
	if words == "" {
		return
	}
	th := t.turns.startedTurn().threads.of(cmp.Or(parent, t.session.q.parentOf(u.UpdateMeta)))
	th.replace(typ, u.MessageID, words, t.paragraph(typ))
}

// paragraph returns the separator between a chunk and the text before it.
func (t *translator) paragraph(typ event.ItemType) string {
	if t.replay != nil && typ == event.TypeReasoning && t.session.q.replay.thoughtParts {
		return "\n\n"
	}
	return ""
}

// plan emits a plan of the agent. entries is the whole plan, not a change.
func (tn *turn) plan(entries []planEntry) {
	th := tn.threads.of("")
	th.interrupt()
	translate.EmitPlan(tn.out, th.ids.Next("plan"), th.parent, planEntries(entries))
}

func planEntries(entries []planEntry) []event.PlanEntry {
	out := make([]event.PlanEntry, 0, len(entries))
	for _, e := range entries[:min(len(entries), translate.MaxSteps)] {
		out = append(out, translate.PlanEntry(e.Content, e.Status, e.Priority))
	}
	return out
}

// userMessage returns the user's message for the blocks of a prompt, without
// the warning about rejected attachments that Runnel adds before the prompt. It
// returns that warning separately, or "". An agent may replay the warning and
// the prompt as one block. A prompt that consists only of a warning was written
// by the user and remains in the message. For picture see
// [translate.Emitter.Picture].
func userMessage(content []block, picture func(base64 string) string) (msg event.Message, warning string) {
	if len(content) > 0 && content[0].Type == "text" {
		all, rest := runnel.CutWarning(content[0].Text)
		if all != "" && (all != content[0].Text || len(content) > 1) {
			warning, content = all, slices.Clone(content)
			content[0].Text = strings.TrimPrefix(rest, "\n")
		}
	}
	msg.Origin = event.OriginUser
	for _, b := range content {
		if b.Type == "text" {
			msg.Content += b.Text
		} else if b.Type != "" {
			msg.Attachments = append(msg.Attachments, b.attachment(picture))
		}
	}
	return msg, warning
}

// textOf returns the text of one block or of a list of blocks.
func textOf(content json.RawMessage) string {
	words := ""
	for _, b := range blocks(content) {
		words += b.text()
	}
	return words
}

// attachment returns the attachment that a block represents.
func (b block) attachment(picture func(base64 string) string) event.Attachment {
	a := event.Attachment{Name: text.OneLine(path.Base(b.URI+b.Resource.URI), 200), MediaType: text.OneLine(b.MimeType+b.Resource.MimeType, 100)}
	switch {
	case b.Data != "":
		a.Size, a.Picture = translate.Base64Size(b.Data), picture(b.Data)
	case b.Resource.Blob != "":
		a.Size = translate.Base64Size(b.Resource.Blob)
	default:
		a.Size = int64(len(b.Resource.Text))
	}
	if a.Name == "." || a.Name == "/" {
		a.Name = text.OneLine(b.Name, 200)
	}
	return a
}
