package runnel

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// UniversalKind is what a [UniversalEvent] says.
type UniversalKind string

// The kinds of universal events.
const (
	TextOutput UniversalKind = "TextOutput"
	ToolCall   UniversalKind = "ToolCall"
	ToolResult UniversalKind = "ToolResult"
	StatusInfo UniversalKind = "Status"
	ErrorInfo  UniversalKind = "Error"
	Unknown    UniversalKind = "Unknown"
)

// A UniversalEvent is the flat envelope for programs that want finished pieces
// and no deltas. Its fields are bounded, in bytes: Channel 128 (else empty),
// Text 65,536 (longer text is split, in order), Message 4,096 (cut), Data
// 65,536 (else {"dropped":{"reason":"oversize"}}).
type UniversalEvent struct {
	AgentKind string          `json:"agent_kind"` // such as claude_code
	Kind      UniversalKind   `json:"kind"`
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

// Universal yields the run's events in the universal envelope.
func (r *Run) Universal(ctx context.Context) iter.Seq2[UniversalEvent, error] {
	kind := strings.ReplaceAll(r.session.provider.Name(), "-", "_")
	return func(yield func(UniversalEvent, error) bool) {
		for ev, err := range r.Events(ctx) {
			if err != nil {
				yield(UniversalEvent{}, err)
				return
			}
			for _, u := range Universal(kind, ev.Body) {
				if !yield(u, nil) {
					return
				}
			}
		}
	}
}

// Universal returns b in the universal envelope: nothing for what a later body
// repeats, several for long text.
func Universal(agentKind string, b event.Body) []UniversalEvent {
	var out []UniversalEvent
	switch b := b.(type) {
	case event.ItemStart, event.ItemDelta:
		return nil
	case event.ItemDone:
		out = universalItem(b.FinalItem)
	case event.ResponseStart, event.ApprovalRequested, event.ApprovalResolved, event.SessionUpdated, event.UsageUpdated:
		out = []UniversalEvent{{Kind: StatusInfo, Channel: event.Type(b), Data: universalData(b)}}
	case event.ResponseDone:
		out = []UniversalEvent{{Kind: StatusInfo, Channel: event.Type(b), Message: string(b.Status), Data: universalData(b)}}
	case event.ItemCancelled:
		out = []UniversalEvent{{Kind: StatusInfo, Channel: event.Type(b), Message: string(b.Reason), Data: universalData(b)}}
	case event.Notice:
		out = []UniversalEvent{{Kind: StatusInfo, Channel: "notice", Message: b.Message, Data: universalData(b)}}
	case event.ItemError:
		out = []UniversalEvent{{Kind: ErrorInfo, Channel: event.Type(b), Message: b.Error.Message, Data: universalData(b)}}
	case event.ResponseError:
		out = []UniversalEvent{{Kind: ErrorInfo, Channel: event.Type(b), Message: b.Error.Message, Data: universalData(b)}}
	default:
		out = []UniversalEvent{{Kind: Unknown, Data: universalData(b)}}
	}
	for i := range out {
		out[i].AgentKind = agentKind
		out[i].bound()
	}
	return out
}

func universalItem(f event.FinalItem) []UniversalEvent {
	switch f := f.(type) {
	case event.Message:
		return universalText(string(f.Origin), f.Content)
	case event.Reasoning:
		return universalText("reasoning", f.Content)
	case event.FunctionCall:
		return []UniversalEvent{{Kind: ToolCall, Channel: f.Name, Message: f.Title, Data: universalFinal(f)}}
	case event.FunctionCallOutput:
		return []UniversalEvent{{Kind: ToolResult, Channel: "tool", Data: universalFinal(f)}}
	}
	return []UniversalEvent{{Kind: StatusInfo, Channel: string(f.ItemType()), Data: universalFinal(f)}}
}

func universalText(channel, content string) []UniversalEvent {
	var out []UniversalEvent
	for {
		head, _ := text.Cut(content, maxText)
		out = append(out, UniversalEvent{Kind: TextOutput, Channel: channel, Text: head})
		if content = content[len(head):]; content == "" {
			return out
		}
	}
}

func universalData(b event.Body) json.RawMessage {
	data, err := event.MarshalBody(b)
	if err != nil {
		return nil
	}
	return data
}

func universalFinal(f event.FinalItem) json.RawMessage {
	data, err := event.MarshalFinal(f)
	if err != nil {
		return nil
	}
	return data
}

func (u *UniversalEvent) bound() {
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
