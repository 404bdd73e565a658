package acp

import (
	"cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
)

// untitled is the title of a conversation until its first prompt. It is not
// shown.
const untitled = "New conversation"

// maxTitle bounds a title, in bytes.
const maxTitle = 200

// title gives the conversation a title, if the agent would otherwise ask a model
// for one after the first turn; see startupQuirks.titles. An agent that accepts
// no title is refused.
func (h *handshake) title() error {
	s := &h.c.tr.session
	if !s.q.startup.titles || h.show || h.method == methodResume { // a resumed conversation has its title
		return nil
	}
	m, err := h.call(jsonrpc.ID{}, methodTitle, titled(s.id, cmp.Or(s.title, untitled)))
	if err != nil {
		return err
	}
	if m.Error != nil {
		agent := h.p.agent.conn()
		return runnel.Fail(runnel.SessionCreateFailed, agent.Name+" did not accept a title, and would ask a model for one without the limits of the session. Update it: "+agent.Install, m.Error)
	}
	return nil
}

func titled(session, title string) any {
	return map[string]string{"sessionId": session, "title": title}
}

// nameAfter sets the title of a conversation that has none to the beginning of
// a prompt.
func (c *conn) nameAfter(in runnel.Input) error {
	return c.Do(func(send func(any) error) error {
		s := &c.tr.session
		title := text.OneLine(in.Text, maxTitle)
		if !s.q.startup.titles || s.title != "" || title == "" {
			return nil
		}
		id, err := c.tr.peer.NextID()
		if err != nil {
			return err
		}
		line, err := encode(jsonrpc.NewRequest(id, methodTitle, titled(s.id, title)))
		if err != nil {
			return err
		}
		return send(line)
	})
}
