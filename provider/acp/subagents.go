package acp

import (
	"cmp"
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// parentOf returns the call whose subagent says something.
func (t *translator) parentOf(meta json.RawMessage) string {
	if t.child != "" {
		return t.child
	}
	return t.q.parentOf(meta)
}

// inChild takes what is said in the conversation of a subagent. It reports
// false, and does nothing, if there is no such subagent in the turn.
func (t *translator) inChild(session string, take func()) bool {
	if t.turn == nil || t.turn.calls[session] == nil || t.turn.calls[session].answered {
		t.skipped++
		return false
	}
	t.child = session
	take()
	t.child = ""
	return true
}

// subagent takes what version 2 says of a subagent. The call that started it is
// not told, so that the subagent itself is shown as one: it is named after its
// conversation, and its output is the last that it said.
func (t *translator) subagent(u update) {
	d := decodeLoose[subagent](u.toolCall.raw)
	if t.turn == nil || d.SessionID == "" {
		return
	}
	c := t.turn.calls[d.SessionID]
	if c == nil {
		title := cmp.Or(oneLine(d.Title, 200), "Subagent")
		input, err := json.Marshal(map[string]string{"title": title})
		if err != nil {
			return
		}
		if c = t.upsert(toolCall{ID: d.SessionID, Name: "subagent", Title: title, RawInput: input}, fromCall); c == nil {
			return
		}
		c.kind = event.KindDelegate
		t.tell(c)
	}
	if d.State.State != "idle" || c.completed {
		return
	}
	th := t.turn.thread(d.SessionID)
	t.close(th)
	c.completed, c.failed = true, d.State.StopReason == "error"
	c.content = []toolContent{{Type: "content", Content: block{Type: "text", Text: th.said}}}
	t.answer(c)
}
