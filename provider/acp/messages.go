package acp

import (
	"fmt"
	"path"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// thread is a line of native messages and calls: the main one or a subagent's.
type thread struct {
	prefix   string         // of its items' ids
	parent   string         // the call that started the subagent; "" on the main thread
	ordinals map[string]int // by native message or call
	blocks   map[string]int // by native message: index of its next block
	last     map[string]string
	nameless int                     // messages without an id
	kinds    map[event.ItemType]bool // of the last of these; nil once something else came
	open     *message                // the one that grows
	said     string                  // text of the last one
}

// message is a text that grows.
type message struct {
	id     string
	typ    event.ItemType
	native string // the agent's id; "" if it has none
	text   strings.Builder
}

// thread returns the thread below a call.
func (tn *turn) thread(parent string) *thread {
	th := tn.threads[parent]
	if th == nil {
		prefix := tn.id + ":"
		if parent != "" {
			prefix += key(parent) + "/"
		}
		th = &thread{prefix: prefix, parent: parent, ordinals: map[string]int{}, blocks: map[string]int{}, last: map[string]string{}}
		tn.threads[parent] = th
	}
	return th
}

// item returns the id of the next block of something native.
func (th *thread) item(native string) string {
	if th.ordinals[native] == 0 {
		th.ordinals[native] = len(th.ordinals) + 1
	}
	index := th.blocks[native]
	th.blocks[native]++
	return fmt.Sprintf("%s%d:%d", th.prefix, th.ordinals[native], index)
}

// unnamed returns the id of a message without one. Reasoning and the text behind
// it are of one message, in which text comes first: there are agents that do not
// tell of reasoning when they load.
func (th *thread) unnamed(typ event.ItemType) string {
	if th.kinds == nil || th.kinds[typ] {
		th.nameless++
		th.kinds = map[event.ItemType]bool{}
	}
	th.kinds[typ] = true
	native := "message #" + itoa(th.nameless)
	if th.ordinals[native] == 0 {
		th.ordinals[native] = len(th.ordinals) + 1
	}
	index := 0
	if typ == event.TypeReasoning {
		index = 1
	}
	return fmt.Sprintf("%s%d:%d", th.prefix, th.ordinals[native], index)
}

// maxText bounds a message, in bytes. What is beyond it is left out.
const maxText = 8 << 20

// chunk takes a piece of a message. Without an id, a message goes on until
// something else comes.
func (t *translator) chunk(typ event.ItemType, u update) {
	text := ""
	for _, b := range blocks(u.Content) {
		text += b.text()
	}
	if t.turn == nil {
		late := u.MessageID != "" && u.MessageID == t.Said // of a turn that is over
		if typ == event.TypeMessage && t.load == nil && !late {
			t.say(text)
		}
		return
	}
	if text == "" {
		return
	}
	tn := t.running()
	if th := tn.thread(""); typ == event.TypeMessage && u.MessageID == "" && th.open == nil && t.load == nil && t.q.live.own != nil && t.q.live.own(text) {
		tn.said, tn.saidID = text, ""
		t.say(text)
		return
	}
	t.grow(tn, tn.thread(t.parentOf(u.UpdateMeta)), typ, u.MessageID, text)
}

func (t *translator) grow(tn *turn, th *thread, typ event.ItemType, native, text string) {
	m := th.open
	if m == nil || m.typ != typ || m.native != native {
		if typ == event.TypeReasoning { // codex-acp begins with line breaks when live, and not when it loads (thought)
			if text = strings.TrimLeft(text, "\r\n"); strings.TrimSpace(text) == "" {
				return
			}
		}
		t.close(th)
		m = t.open(th, typ, native)
	} else if t.load != nil && typ == event.TypeReasoning && t.q.replay.thoughtParts {
		text = "\n\n" + text
	}
	if m.text.Len()+len(text) > maxText {
		return
	}
	m.text.WriteString(text)
	if typ == event.TypeMessage {
		th.said = m.text.String()
		if th.parent == "" {
			tn.said, tn.saidID = th.said, native
		}
	}
	t.emit(event.ItemDelta{ItemID: m.id, DeltaContent: text})
}

func (t *translator) open(th *thread, typ event.ItemType, native string) *message {
	start := event.ItemStart{ItemType: typ, ParentCallID: th.parent}
	if native == "" {
		start.ItemID = th.unnamed(typ)
	} else {
		start.ItemID = th.item("message " + native)
		if len(native) <= 200 {
			start.Native = map[string]string{"messageId": native}
		}
	}
	m := &message{id: start.ItemID, typ: typ, native: native}
	th.open = m
	t.emit(start)
	return m
}

// whole takes a message of version 2 as it stands now. What streams in
// afterwards is appended to it.
func (t *translator) whole(typ event.ItemType, u update) {
	text := ""
	for _, b := range blocks(u.Content) {
		text += b.text()
	}
	if text == "" || t.turn == nil {
		return
	}
	tn := t.running()
	th := tn.thread(t.parentOf(u.UpdateMeta))
	if m := th.open; m != nil && m.typ == typ && m.native == u.MessageID {
		if rest, grown := strings.CutPrefix(text, m.text.String()); grown {
			if rest != "" {
				t.grow(tn, th, typ, u.MessageID, rest)
			}
			return
		}
		t.abandon(th, "")
	} else if th.last[u.MessageID] == text {
		return
	}
	t.grow(tn, th, typ, u.MessageID, text)
}

// close ends the message that grows.
func (t *translator) close(th *thread) {
	m := th.open
	if m == nil {
		return
	}
	th.open = nil
	text := m.text.String()
	if t.Version >= 2 && m.native != "" {
		th.last[m.native] = text
	}
	var final event.FinalItem = event.Message{Content: text, Origin: event.OriginAgent}
	if m.typ == event.TypeReasoning {
		final = event.Reasoning{Content: text, ProviderID: t.provider}
	}
	t.emit(event.ItemDone{ItemID: m.id, FinalItem: final})
}

// abandon ends it unfinished.
func (t *translator) abandon(th *thread, why event.CancelReason) {
	if th.open != nil {
		t.emit(event.ItemCancelled{ItemID: th.open.id, Reason: why})
		th.open = nil
	}
}

// Bounds of a plan: its entries, and the text of each in bytes.
const (
	maxSteps    = 500
	maxStepText = 1000
)

// plan takes what the agent means to do, as a whole each time.
func (t *translator) plan(entries []planEntry) {
	if t.turn == nil {
		return
	}
	tn := t.running()
	th := tn.thread("")
	t.close(th)
	th.kinds = nil
	t.planItem(th.item("plan"), th.parent, entries)
}

func (t *translator) planItem(id, parent string, entries []planEntry) {
	out := make([]event.PlanEntry, 0, len(entries))
	for _, e := range entries[:min(len(entries), maxSteps)] {
		if e.Status != "in_progress" && e.Status != "completed" {
			e.Status = "pending"
		}
		out = append(out, event.PlanEntry{Content: oneLine(e.Content, maxStepText), Status: e.Status, Priority: oneLine(e.Priority, 40)})
	}
	t.emit(event.ItemStart{ItemID: id, ItemType: event.TypePlan, ParentCallID: parent})
	t.emit(event.ItemDone{ItemID: id, FinalItem: event.Plan{Entries: out}})
}

// userMessage tells of a prompt.
func (t *translator) userMessage(turn string, content []block) {
	msg := event.Message{Origin: event.OriginUser}
	for _, b := range content {
		if b.Type == "text" {
			msg.Content += b.Text
		} else if b.Type != "" {
			msg.Attachments = append(msg.Attachments, b.attachment())
		}
	}
	id := turn + ":0:0"
	for _, body := range []event.Body{
		event.ItemStart{ItemID: id, ItemType: event.TypeMessage}, event.ItemDone{ItemID: id, FinalItem: msg},
	} {
		t.events = append(t.events, event.Event{At: t.at, Turn: turn, Body: body})
	}
}

// attachment is what is told of a block that is no text.
func (b block) attachment() event.Attachment {
	size := func(base64 string) int64 {
		return int64(len(base64)/4*3 - strings.Count(base64[max(0, len(base64)-2):], "="))
	}
	a := event.Attachment{Name: oneLine(path.Base(b.URI+b.Resource.URI), 200), MediaType: oneLine(b.MimeType+b.Resource.MimeType, 100)}
	switch {
	case b.Data != "":
		a.Size = size(b.Data)
	case b.Resource.Blob != "":
		a.Size = size(b.Resource.Blob)
	default:
		a.Size = int64(len(b.Resource.Text))
	}
	if a.Name == "." || a.Name == "/" {
		a.Name = oneLine(b.Name, 200)
	}
	return a
}
