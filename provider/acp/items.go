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

// threads are the threads of a turn: the main one and those of its subagents.
type threads struct {
	turn     string // its id
	out      translate.TurnEmitter
	session  *session // read only
	byParent map[string]*thread
}

// thread is a line of native messages and calls. It owns the message that grows
// and the numbers of its items.
type thread struct {
	out     translate.TurnEmitter
	session *session // read only
	parent  string   // the call that started the subagent; "" on the main thread

	ids      *translate.Numbering
	nameless int                     // messages without an id
	kinds    map[event.ItemType]bool // of the last message without an id; nil once another item began
	open     *message                // the message that grows
	latest   map[string]string       // version 2: text of each message that ended, by its native id
	last     string                  // text of the last message
	lastID   string                  // native id of the last message
}

// message is a text that grows.
type message struct {
	id     string
	typ    event.ItemType
	native string // the agent's id; "" if it has none
	text   strings.Builder
}

// of returns the thread below a call; "" is the main thread.
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

// start begins the item of a message.
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
// and the text after it belong to one message, in which the text has the lower
// number: some agents leave reasoning out of a replay.
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

// grow appends to a message and begins it if need be. separator goes between
// the text so far and the rest.
func (th *thread) grow(typ event.ItemType, native, words, separator string) {
	m := th.open
	if m == nil || m.typ != typ || m.native != native {
		if typ == event.TypeReasoning { // live, codex-acp begins with line breaks that its replay lacks (thought)
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

// replace sets the text of a message as it stands now. Chunks that follow are
// appended to it.
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

// close ends the message that grows.
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

// cancel ends the message that grows, unfinished.
func (th *thread) cancel(why event.CancelReason) {
	if th.open != nil {
		th.out.Emit(event.ItemCancelled{ItemID: th.open.id, Reason: why})
		th.open = nil
	}
}

// interrupt makes room for another item: the message that grows ends, and later
// text without a native id is another message.
func (th *thread) interrupt() {
	th.close()
	th.kinds = nil
}

// callEnded does the same for messages without a native id. A message with an
// id may go on after the call.
func (th *thread) callEnded() {
	th.kinds = nil
	if th.open != nil && th.open.native == "" {
		th.close()
	}
}

// chunk dispatches a piece of a message. Without an id, a message goes on until
// another item begins.
func (t *translator) chunk(typ event.ItemType, u update, parent string) {
	if f := t.session.q.live.callUsage; f != nil {
		t.turns.now.add(f(u.UpdateMeta))
	}
	words := textOf(u.Content)
	if words == "" {
		return
	}
	t.session.named = t.session.named || u.MessageID != ""
	tn := t.turns.running()
	main := tn.threads.of("")
	own := t.session.q.live.own
	if typ == event.TypeMessage && u.MessageID == "" && main.open == nil && t.replay == nil && own != nil && own(words) {
		main.last, main.lastID = words, ""
		t.remarks.add(words)
		return
	}
	th := tn.threads.of(cmp.Or(parent, t.session.q.parentOf(u.UpdateMeta)))
	th.grow(typ, u.MessageID, words, t.paragraph(typ))
}

// whole dispatches a message of version 2, which is the whole text so far.
func (t *translator) whole(typ event.ItemType, u update, parent string) {
	words := textOf(u.Content)
	if words == "" {
		return
	}
	th := t.turns.running().threads.of(cmp.Or(parent, t.session.q.parentOf(u.UpdateMeta)))
	th.replace(typ, u.MessageID, words, t.paragraph(typ))
}

// paragraph returns what separates a chunk from the text before it.
func (t *translator) paragraph(typ event.ItemType) string {
	if t.replay != nil && typ == event.TypeReasoning && t.session.q.replay.thoughtParts {
		return "\n\n"
	}
	return ""
}

// plan emits a plan of the agent, which is whole each time.
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

// userMessage makes the user's message of a prompt's blocks. It also returns the
// warning about rejected attachments that went before the prompt, "" if there
// was none. An agent may replay the warning and the prompt as one block. A text
// that is a warning and nothing else was written by the user.
func userMessage(content []block) (msg event.Message, warning string) {
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
			msg.Attachments = append(msg.Attachments, b.attachment())
		}
	}
	return msg, warning
}

// textOf returns what can be shown of one block or a list of them.
func textOf(content json.RawMessage) string {
	words := ""
	for _, b := range blocks(content) {
		words += b.text()
	}
	return words
}

// attachment describes a block that is no text.
func (b block) attachment() event.Attachment {
	a := event.Attachment{Name: text.OneLine(path.Base(b.URI+b.Resource.URI), 200), MediaType: text.OneLine(b.MimeType+b.Resource.MimeType, 100)}
	switch {
	case b.Data != "":
		a.Size = translate.Base64Size(b.Data)
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
