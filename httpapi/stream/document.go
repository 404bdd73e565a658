package stream

import (
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/upsert"
)

// A Document describes what streams carry. Its maps have a zero value for each
// name on the wire. The OpenAPI document is made from the types of these
// values.
type Document struct {
	Event    any            // a canonical event
	Payloads map[string]any // of canonical events, by type
	Items    map[string]any // finished items, by type
	Frames   map[string]any // data of a turn's frames, by name
	Control  map[string]any // data of the frames of every SSE stream, by name
	Client   map[string]any // messages of a client of the WebSocket, by type
	Server   map[string]any // messages of the server on the WebSocket, by type
	Live     map[string]any // payloads of live messages, and of history's entries, by type
	Meaning  Meaning        // descriptions for people
}

// A Meaning describes the names on the wire. Fields has the keys of
// fieldMeanings, and Types the names of components.
type Meaning struct{ Events, Frames, Client, Server, Fields, Types map[string]string }

// An EventDocument is the JSON form of a canonical event.
type EventDocument struct {
	EventID   string    `json:"eventId"`
	Seq       int64     `json:"seq" doc:"Position of the event in the session's log: 1, 2, 3 and so on. It is the cursor of every stream."`
	Timestamp time.Time `json:"timestamp"`
	SessionID string    `json:"sessionId"`
	TurnID    string    `json:"turnId,omitempty"`
	Type      string    `json:"type"`
	Payload   any       `json:"payload"`
}

// An optionsMessage is the message that changes settings of a live session.
type optionsMessage struct {
	Message
	SessionID string `json:"sessionId"`
	runnel.Settings
}

// Describe returns the Document of all streams.
func Describe() Document {
	payloads := make(map[string]any)
	for _, b := range event.Bodies() {
		payloads[event.Type(b)] = b
	}
	items := make(map[string]any)
	for _, f := range []event.FinalItem{event.Message{}, event.Reasoning{}, event.FunctionCall{}, event.FunctionCallOutput{}, event.Plan{}} {
		items[string(f.ItemType())] = f
	}
	return Document{
		Event: EventDocument{}, Payloads: payloads, Items: items,
		Frames: map[string]any{
			"session:init": initFrame{}, "chat:delta": textFrame{}, "chat:complete": textFrame{}, "reasoning:delta": textFrame{},
			"reasoning:complete": textFrame{}, "tool:start": toolStartFrame{}, "tool:progress": toolProgressFrame{}, "tool:result": toolResultFrame{},
			"plan:update": planFrame{}, "permission:request": permissionFrame{}, "permission:resolved": resolvedFrame{}, "notice": noticeFrame{},
			"turn:error": errorFrame{}, "session:complete": completeFrame{}, "process:exit": exitFrame{},
		},
		Control: map[string]any{"stream:open": openFrame{}, "stream:end": endMessage{}},
		Client: map[string]any{
			"session:hello": helloMessage{}, "session:subscribe": subscribeMessage{}, "session:unsubscribe": sessionMessage{}, "session:items": itemsMessage{},
			"sessions:subscribe": Message{}, "conversations:subscribe": Message{}, "session:send": sendMessage{}, "session:cancel": cancelMessage{}, "session:kill": sessionMessage{},
			"session:options": optionsMessage{}, "session:decide": decideMessage{},
			"session:queue": sessionMessage{}, "session:queue:hold": holdMessage{}, "session:queue:edit": editMessage{}, "session:queue:remove": queuedMessage{},
		},
		Server: map[string]any{
			"session:hello:ack": helloAnswer{}, "response": response{}, "error": errorMessage{}, "session:history": historyMessage{},
			"session:end": endMessage{}, "conversations:changed": conversationsMessage{},
		},
		Live: map[string]any{
			"session:event": EventDocument{}, "session:status": gateway.Status{},
			upsert.Upsert{}.Frame(): upsert.Upsert{}, upsert.Append{}.Frame(): upsert.Append{}, upsert.TurnEvent{}.Frame(): upsert.TurnEvent{}, upsert.Approval{}.Frame(): upsert.Approval{},
			upsert.Notice{}.Frame(): upsert.Notice{}, upsert.Usage{}.Frame(): upsert.Usage{},
		},
		Meaning: Meaning{eventMeanings(), frameMeanings(), clientMeanings(), serverMeanings(), fieldMeanings(), typeMeanings()},
	}
}
