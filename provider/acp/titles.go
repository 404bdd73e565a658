package acp

import (
	"cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
)

// This file gives conversations their titles, if the agent would otherwise ask a
// model for one; see startupQuirks.titles.

// untitled is the title of a conversation until its first prompt. It is not
// shown.
const untitled = "New conversation"

// maxTitle bounds a title, in bytes.
const maxTitle = 200

// title gives a new conversation a title. It does so before the first prompt:
// codex-acp 2.6.0 may reject a title while a turn starts. An agent that accepts
// no title is refused.
func (h *handshake) title() error {
	s := &h.c.tr.session
	if !s.untitled {
		return nil
	}
	m, err := h.call(jsonrpc.ID{}, methodTitle, titled(s.id, untitled))
	if err != nil {
		return err
	}
	if m.Error != nil {
		agent := h.p.agent.conn()
		return runnel.Fail(runnel.SessionCreateFailed, agent.Name+" accepts no title, and would ask a model for one without the limits of the session. Update it: "+agent.Install, m.Error)
	}
	return nil
}

func titled(session, title string) any {
	return map[string]string{"sessionId": session, "title": title}
}

// nameAfter sets the title of an untitled conversation to the beginning of a
// prompt. If the agent rejects it, the next prompt sets it.
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

// titleAnswered makes the next prompt set the title again if the agent rejected it.
func (t *translator) titleAnswered(r request, m jsonrpc.Message) {
	if m.Error != nil && r.Value != untitled {
		t.session.untitled = true
	}
}
