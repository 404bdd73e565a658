package acp

import (
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonscan"
)

// The members of a notification with a chunk of text, the most frequent line of
// the agent. A line with other members is decoded as a message.
var (
	chunkLine    = []string{"jsonrpc", "method", "params"}
	chunkParams  = []string{"sessionId", "update"}
	chunkUpdate  = []string{"sessionUpdate", "content", "messageId"}
	chunkContent = []string{"type", "text"}
)

// A textChunk is a chunk of text of the conversation.
type textChunk struct {
	session, kind, messageID, text jsonscan.Text
}

// scanChunk decodes a notification with a chunk of text. It reports false for
// every other line, and for a line of an unusual form.
func scanChunk(line []byte) (c textChunk, ok bool) {
	s := jsonscan.New(line)
	update, text := false, false
	s.Object(chunkLine, func(member int) {
		switch member {
		case 0:
			s.Skip()
		case 1:
			if !s.Text().Is(methodUpdate) {
				s.Fail()
			}
		case 2:
			s.Object(chunkParams, func(member int) {
				if member == 0 {
					c.session = s.Text()
					return
				}
				update = true
				s.Object(chunkUpdate, func(member int) {
					switch member {
					case 0:
						c.kind = s.Text()
					case 1:
						text = c.scanContent(&s)
					case 2:
						c.messageID = s.Text()
					}
				})
			})
		}
	})
	return c, s.Done() && update && text
}

// scanContent decodes a content block. It reports whether the block is a text.
func (c *textChunk) scanContent(s *jsonscan.Scanner) (text bool) {
	s.Object(chunkContent, func(member int) {
		if member == 0 {
			text = s.Text().Is("text")
		} else {
			c.text = s.Text()
		}
	})
	return text
}

// grow handles a notification with a chunk of the main agent's text while a
// turn runs. It does what message does with the decoded line. It reports false,
// and does nothing, for any other line.
func (t *translator) grow(line []byte) bool {
	c, ok := scanChunk(line)
	if !ok || t.replay != nil || t.turns.now == nil || t.session.id == "" || !c.session.Is(t.session.id) {
		return false
	}
	var typ event.ItemType
	switch {
	case c.kind.Is("agent_message_chunk"):
		typ = event.TypeMessage
	case c.kind.Is("agent_thought_chunk"):
		typ = event.TypeReasoning
		t.outOfTurnText.flush(t.turns.out())
	default:
		return false
	}
	native := ""
	if open := t.turns.now.threads.of("").open; open != nil {
		native = open.native
	}
	t.chunk(typ, textUpdate{words: c.text.String(), messageID: nativeID(c.messageID.Known(native))}, "")
	return true
}
