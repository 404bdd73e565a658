// Package universal defines a flat event format for programs that want complete
// pieces instead of deltas. [Stream] converts canonical events to it.
package universal

import (
	"encoding/json"

	"github.com/runnel-dev/runnel/internal/text"
)

// A Kind is the type of an [Event].
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

// The channels of text, tools and warnings. The channel of any other event is
// the type of its canonical event.
const (
	Assistant = "assistant" // TextOutput: the agent's answer
	Subagent  = "subagent"  // TextOutput: the text of a subagent, which is not part of the answer
	Reasoning = "reasoning" // TextOutput: the reasoning of the model
	Tool      = "tool"      // ToolCall and ToolResult
	User      = "user"      // Status: the prompt was accepted
	System    = "system"    // Status: a message from neither the user nor the agent
	Warning   = "status"    // Status: the run has a guardrail disabled
)

// An Event is one complete piece. Its fields have these bounds, in bytes:
// Channel 128 (a longer one is dropped), Text 65,536 (longer text is split into
// several events), Message 4,096 (cut), Data 65,536 (larger data is replaced by
// {"dropped":{"reason":"oversize"}}).
type Event struct {
	AgentKind string          `json:"agent_kind"` // such as claude_code
	Kind      Kind            `json:"kind"`
	Channel   string          `json:"channel,omitzero"`
	Text      string          `json:"text,omitzero"`    // TextOutput
	Message   string          `json:"message,omitzero"` // Status and Error; never empty in an Error
	Data      json.RawMessage `json:"data,omitzero"`
}

// A Completion is the outcome of a run. Data is the [HandleFacet] if the
// agent's id of the conversation is known. It has the same bound as the Data of
// an [Event].
type Completion struct {
	AgentKind string          `json:"agent_kind"`
	Status    string          `json:"status"`              // completed, cancelled or error
	ExitCode  *int            `json:"exit_code,omitempty"` // of the agent's process, if known
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

// texts splits content into events of at most maxText bytes each. It returns
// none for empty content.
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
