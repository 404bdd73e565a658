package acp

import (
	"cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
)

// This file gives conversations their titles, if the agent would otherwise ask a
// model for one; see startupQuirks.titles. The title is set with the first
// prompt, because the agent stores a conversation that has a title.

// maxTitle bounds a title, in bytes.
const maxTitle = 200

// canTitle fails if the agent accepts no titles. It sends an empty title, which
// such an agent rejects for its value.
func (h *handshake) canTitle() error {
	s := &h.c.tr.session
	if !s.untitled {
		return nil
	}
	m, err := h.call(jsonrpc.ID{}, methodTitle, titled(s.id, ""))
	if err != nil {
		return err
	}
	if m.Error != nil && m.Error.Code == jsonrpc.CodeMethodNotFound {
		agent := h.p.agent.conn()
		return runnel.Fail(runnel.SessionCreateFailed, agent.Name+" accepts no title, and would ask a model for one without the limits of the session. Update it: "+agent.Install, m.Error)
	}
	return nil
}

func titled(session, title string) any {
	return map[string]string{"sessionId": session, "title": title}
}

// nameAfter sets the title of an untitled conversation to the beginning of a
// prompt. The agent has the title before it can complete the turn.
func (c *conn) nameAfter(in runnel.Input) error {
	return c.Do(func(send func(any) error) error {
		s := &c.tr.session
		if !s.untitled {
			return nil
		}
		id, err := c.tr.peer.NextID()
		if err != nil {
			return err
		}
		title := cmp.Or(s.title, text.OneLine(in.Text, maxTitle), "Conversation")
		line, err := encode(jsonrpc.NewRequest(id, methodTitle, titled(s.id, title)))
		if err != nil {
			return err
		}
		return send(line)
	})
}

// titleAnswered processes the answer to a title. If the agent rejects it, the
// turn is cancelled: only after a completed turn would a model make the title.
func (t *translator) titleAnswered(r request, m jsonrpc.Message) {
	if m.Error == nil || r.Value == "" {
		return
	}
	t.session.untitled = true
	if t.turns.now == nil {
		return
	}
	t.turns.out().Emit(event.Notice{
		Level: event.LevelWarning, Code: "TITLE_REJECTED",
		Message: "The agent rejected the title of the conversation, so Runnel cancels the turn: a model would make the title without the limits of the session. Send the prompt again.",
	})
	if cancel, err := jsonrpc.NewNotification(methodCancel, map[string]any{"sessionId": t.session.id}); err == nil {
		reply(&t.out, cancel)
	}
}
