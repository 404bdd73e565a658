package acp

import (
	"cmp"
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// subagent handles an update about a subagent, in version 2. The agent does not
// report the call that started the subagent. So the translator emits a call for
// the subagent itself: its id is the id of the subagent's conversation, and its
// output is the subagent's last message. parent is the id of the subagent that
// sent the update, or "" for the main agent.
func (tn *turn) subagent(d subagent, parent string) {
	c := tn.calls.byID[d.SessionID]
	if c == nil {
		if c = tn.startSubagent(d, parent); c == nil {
			return
		}
	}
	if d.State.State != "idle" || c.completed {
		return
	}
	th := tn.threads.of(d.SessionID)
	th.close()
	c.completed, c.failed = true, d.State.StopReason == "error"
	c.content = []toolContent{{Type: "content", Content: block{Type: "text", Text: th.last}}}
	tn.calls.answer(c)
}

func (tn *turn) startSubagent(d subagent, parent string) *call {
	title := cmp.Or(text.OneLine(d.Title, 200), "Subagent")
	input, err := json.Marshal(map[string]string{"title": title})
	if err != nil {
		return nil
	}
	c := tn.calls.update(toolCall{ID: d.SessionID, Name: "subagent", Title: title, RawInput: input}, fromCall, parent)
	if c != nil {
		c.kind = event.KindDelegate
		tn.calls.describe(c)
	}
	return c
}
