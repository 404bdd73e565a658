package stream

import (
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// The messages of a client about the queue of a session.
type (
	cancelMessage struct {
		Message
		SessionID string `json:"sessionId"`
		command.CancelRequest
	}
	holdMessage struct {
		Message
		SessionID string `json:"sessionId"`
		command.HoldRequest
	}
	queuedMessage struct {
		Message
		SessionID string `json:"sessionId"`
		TurnID    string `json:"turnId" doc:"Id of the queued prompt."`
	}
	editMessage struct {
		queuedMessage
		command.EditPromptRequest
	}
)

// queue handles the messages about the queue of a session.
func (k *socket) queue(m Message, data []byte) (any, error) {
	switch m.Type {
	case "session:queue":
		return with(data, func(in sessionMessage) (any, error) { return k.s.cfg.Commands.Queue(k.ctx, in.SessionID) })
	case "session:queue:hold":
		return with(data, func(in holdMessage) (any, error) {
			return k.s.cfg.Commands.HoldQueue(k.ctx, in.SessionID, in.HoldRequest)
		})
	case "session:queue:edit":
		return with(data, func(in editMessage) (any, error) {
			return k.s.cfg.Commands.EditPrompt(k.ctx, in.SessionID, in.TurnID, in.EditPromptRequest)
		})
	case "session:queue:remove":
		return with(data, func(in queuedMessage) (any, error) {
			return k.s.cfg.Commands.RemovePrompt(k.ctx, in.SessionID, in.TurnID)
		})
	}
	return nil, reply.Invalid("type: unknown message " + strictjson.Quote(m.Type))
}
