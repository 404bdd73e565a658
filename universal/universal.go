// Package universal is the flat envelope for programs that want finished pieces
// and no deltas: its kinds, and the function that makes it from an event's body.
package universal

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Kind says what an [Event] holds.
type Kind string

// The kinds of universal events.
const (
	TextOutput Kind = "TextOutput"
	ToolCall   Kind = "ToolCall"
	ToolResult Kind = "ToolResult"
	StatusInfo Kind = "Status"
	ErrorInfo  Kind = "Error"
	Unknown    Kind = "Unknown"
)

// An Event is one finished piece. Its fields are bounded, in bytes: Channel 128
// (else empty), Text 65,536 (longer text is split, in order), Message 4,096
// (cut), Data 65,536 (else {"dropped":{"reason":"oversize"}}).
type Event struct {
	AgentKind string          `json:"agent_kind"` // such as claude_code
	Kind      Kind            `json:"kind"`
	Channel   string          `json:"channel,omitzero"`
	Text      string          `json:"text,omitzero"`
	Message   string          `json:"message,omitzero"`
	Data      json.RawMessage `json:"data,omitzero"`
}

const (
	maxChannel   = 128
	maxText      = 65_536
	maxMessage   = 4_096
	maxData      = 65_536
	truncated    = "…(truncated)"
	oversizeData = `{"dropped":{"reason":"oversize"}}`
)

// AgentKind returns the name of a provider as universal events have it.
func AgentKind(provider string) string { return strings.ReplaceAll(provider, "-", "_") }

// From returns b in the universal envelope: nothing for what a later body
// repeats, several for long text.
func From(agentKind string, b event.Body) []Event {
	var out []Event
	switch b := b.(type) {
	case event.ItemStart, event.ItemDelta:
		return nil
	case event.ItemDone:
		out = fromItem(b.FinalItem)
	case event.ResponseStart, event.ApprovalRequested, event.ApprovalResolved, event.SessionUpdated, event.UsageUpdated:
		out = []Event{{Kind: StatusInfo, Channel: event.Type(b), Data: bodyData(b)}}
	case event.ResponseDone:
		out = []Event{{Kind: StatusInfo, Channel: event.Type(b), Message: string(b.Status), Data: bodyData(b)}}
	case event.ItemCancelled:
		out = []Event{{Kind: StatusInfo, Channel: event.Type(b), Message: string(b.Reason), Data: bodyData(b)}}
	case event.Notice:
		out = []Event{{Kind: StatusInfo, Channel: "notice", Message: b.Message, Data: bodyData(b)}}
	case event.ItemError:
		out = []Event{{Kind: ErrorInfo, Channel: event.Type(b), Message: b.Error.Message, Data: bodyData(b)}}
	case event.ResponseError:
		out = []Event{{Kind: ErrorInfo, Channel: event.Type(b), Message: b.Error.Message, Data: bodyData(b)}}
	default:
		out = []Event{{Kind: Unknown, Data: bodyData(b)}}
	}
	for i := range out {
		out[i].AgentKind = agentKind
		out[i].bound()
	}
	return out
}

func fromItem(f event.FinalItem) []Event {
	switch f := f.(type) {
	case event.Message:
		return splitText(string(f.Origin), f.Content)
	case event.Reasoning:
		return splitText("reasoning", f.Content)
	case event.FunctionCall:
		return []Event{{Kind: ToolCall, Channel: f.Name, Message: f.Title, Data: itemData(f)}}
	case event.FunctionCallOutput:
		return []Event{{Kind: ToolResult, Channel: "tool", Data: itemData(f)}}
	}
	return []Event{{Kind: StatusInfo, Channel: string(f.ItemType()), Data: itemData(f)}}
}

func splitText(channel, content string) []Event {
	var out []Event
	for {
		head, _ := text.Cut(content, maxText)
		out = append(out, Event{Kind: TextOutput, Channel: channel, Text: head})
		if content = content[len(head):]; content == "" {
			return out
		}
	}
}

func bodyData(b event.Body) json.RawMessage {
	data, err := event.MarshalBody(b)
	if err != nil {
		return nil
	}
	return data
}

func itemData(f event.FinalItem) json.RawMessage {
	data, err := event.MarshalFinal(f)
	if err != nil {
		return nil
	}
	return data
}

func (u *Event) bound() {
	if len(u.Channel) > maxChannel {
		u.Channel = ""
	}
	if len(u.Message) > maxMessage {
		head, _ := text.Cut(u.Message, maxMessage-len(truncated))
		u.Message = head + truncated
	}
	if len(u.Data) > maxData {
		u.Data = json.RawMessage(oversizeData)
	}
}
