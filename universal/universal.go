// Package universal is the flat envelope for programs that want finished pieces
// and no deltas: its kinds, and the [Stream] that makes it from canonical events.
package universal

import (
	"encoding/json"

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

// The channels of text, tools and warnings. Other events have the type of the
// canonical event as their channel.
const (
	Assistant = "assistant" // TextOutput: the agent's answer
	Subagent  = "subagent"  // TextOutput: what a subagent wrote, which is no part of the answer
	Reasoning = "reasoning" // TextOutput: what the model thought
	Tool      = "tool"      // ToolCall and ToolResult
	User      = "user"      // Status: the prompt was accepted
	System    = "system"    // Status: a message of neither the user nor the agent
	Warning   = "status"    // Status: the run works without a guardrail
)

// An Event is one finished piece. Its fields are bounded, in bytes: Channel 128
// (else empty), Text 65,536 (longer text is split, in order), Message 4,096
// (cut), Data 65,536 (else {"dropped":{"reason":"oversize"}}).
type Event struct {
	AgentKind string          `json:"agent_kind"` // such as claude_code
	Kind      Kind            `json:"kind"`
	Channel   string          `json:"channel,omitzero"`
	Text      string          `json:"text,omitzero"`    // TextOutput
	Message   string          `json:"message,omitzero"` // Status and Error; of an Error never empty
	Data      json.RawMessage `json:"data,omitzero"`
}

// A Completion is how a run ended. Data has the [HandleFacet] if the agent's id
// of the conversation is known; it is bounded like that of an [Event].
type Completion struct {
	AgentKind string          `json:"agent_kind"`
	Status    string          `json:"status"`              // completed, cancelled or error
	ExitCode  *int            `json:"exit_code,omitempty"` // of the agent's process, where it has one
	FinalText string          `json:"final_text,omitzero"`
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

// texts splits content into events of at most maxText bytes each. Empty content
// gives none.
func texts(channel, content string, data json.RawMessage) []Event {
	var out []Event
	for content != "" {
		head, _ := text.Cut(content, maxText)
		out = append(out, Event{Kind: TextOutput, Channel: channel, Text: head, Data: data})
		content = content[len(head):]
	}
	return out
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
