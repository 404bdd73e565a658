package universal

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// A Stream converts the canonical events of one run to universal events. It has
// no goroutine and no clock. Its settings must not change after the first
// event.
//
//   - TextOutput with the channel "assistant" is the agent's answer. Reasoning
//     and the text of subagents have their own channels. The user's prompt is a
//     Status.
//   - The partial text of a failed or cancelled item precedes the event that
//     reports the failure.
//   - A ToolCall is emitted when the arguments are final. A ToolResult is
//     emitted with the output, or when the call or its output failed or was
//     cancelled.
//   - One Status contains the [HandleFacet]. It is emitted when the agent's id
//     is known.
//   - An event that a Stream cannot classify becomes Unknown.
type Stream struct {
	AgentKind string // set in every event

	// Results adds arguments and outputs to ToolCall and ToolResult, and the
	// requested action to approvals. Default: omitted.
	Results bool

	thread string // the agent's id of the conversation
	items  event.Transcript
	calls  map[string]call // by call id; only calls that can still have an output
}

// A call is what a Stream remembers of a tool call.
type call struct {
	turn, name string
	kind       event.ToolKind
}

// ExternalSandbox is the code of the notice that a run has disabled the agent's
// own guardrails; see [ExternalSandboxWarning].
const ExternalSandbox = "EXTERNAL_SANDBOX"

// ExternalSandboxWarning is the message of that notice.
const ExternalSandboxWarning = "DANGEROUS: external sandbox exec policy enabled (agent_api.exec.external_sandbox.v1=true)"

// The messages that programs compare. In a canonical event a colon and an
// explanation for people follow such a message.
const (
	ApprovalRequired = "approval required"
	NoSessionFound   = "no session found"
	SessionNotFound  = "session not found"
)

// Pinned returns the part of message that programs compare. It returns the
// whole message if it has no such part.
func Pinned(message string) string {
	for _, pinned := range []string{ApprovalRequired, NoSessionFound, SessionNotFound} {
		if strings.HasPrefix(message, pinned+": ") {
			return pinned
		}
	}
	return message
}

// Push returns the universal events for ev. It returns none if a later event
// will repeat the content of ev, and several for long text.
func (s *Stream) Push(ev event.Event) []Event {
	out := s.convert(ev)
	for i := range out {
		out[i].AgentKind = s.AgentKind
		out[i].bound()
	}
	return out
}

func (s *Stream) convert(ev event.Event) []Event {
	switch b := ev.Body.(type) {
	case event.ItemStart:
		s.items.Apply(ev)
		if b.ItemType == event.TypeFunctionCall {
			s.remember(ev.Turn, event.FunctionCall{CallID: b.CallID, Name: b.Name})
		}
		return nil
	case event.ItemDelta:
		s.items.Apply(ev)
		return nil
	case event.ItemDone:
		s.items.Apply(ev)
		out := s.item(ev.Turn, b)
		s.items.Release(b.ItemID)
		return out
	case event.ItemError:
		return s.broken(ev, b.ItemID, Event{Kind: ErrorInfo, Message: cmp.Or(b.Error.Message, b.Error.Code), Data: body(b)})
	case event.ItemCancelled:
		return s.broken(ev, b.ItemID, Event{Kind: StatusInfo, Message: string(b.Reason), Data: body(b)})
	case event.SessionUpdated:
		return s.updated(b)
	case event.ResponseStart:
		return status(b, "started")
	case event.ResponseDone:
		s.drop(ev.Turn)
		return status(b, string(b.Status))
	case event.ResponseError:
		s.drop(ev.Turn)
		return []Event{{Kind: ErrorInfo, Channel: event.Type(b), Message: Pinned(cmp.Or(b.Error.Message, b.Error.Code)), Data: body(b)}}
	case event.ApprovalRequested:
		return s.asked(b)
	case event.ApprovalResolved:
		if !s.Results {
			b.UpdatedArguments = nil
		}
		return status(b, Pinned(b.Reason))
	case event.UsageUpdated:
		return status(b, "")
	case event.Notice:
		if b.Code == ExternalSandbox {
			return []Event{{Kind: StatusInfo, Channel: Warning, Message: b.Message}}
		}
		return status(b, b.Message)
	}
	return []Event{{Kind: Unknown, Channel: event.Type(ev.Body), Data: body(ev.Body)}}
}

// item returns the events for a finished item of a turn.
func (s *Stream) item(turn string, b event.ItemDone) []Event {
	it, _ := s.items.Item(b.ItemID)
	switch f := b.FinalItem.(type) {
	case event.Message:
		return message(it, f)
	case event.Reasoning:
		return texts(Reasoning, f.Content, parent(it))
	case event.FunctionCall:
		s.remember(turn, f)
		tool := s.tool(it, f.CallID)
		tool.Phase, tool.Status = "start", "running"
		return []Event{{Kind: ToolCall, Channel: Tool, Data: s.facet(tool, ResultsFacet{Title: f.Title, Arguments: f.Arguments})}}
	case event.FunctionCallOutput:
		tool := s.tool(it, f.CallID)
		delete(s.calls, f.CallID)
		tool.Phase, tool.Status = "complete", "completed"
		if f.IsError {
			tool.Phase, tool.Status = "fail", "failed"
		}
		tool.ExitCode, tool.Bytes = f.ExitCode, sizes(tool.Kind, f)
		return []Event{{Kind: ToolResult, Channel: Tool, Data: s.facet(tool, ResultsFacet{Output: &f.Output, Changes: f.Changes})}}
	case event.Plan:
		return []Event{{Kind: StatusInfo, Channel: string(event.TypePlan), Data: final(f)}}
	}
	return []Event{{Kind: Unknown, Channel: event.Type(b), Data: body(b)}}
}

func message(it event.Item, f event.Message) []Event {
	switch {
	case f.Origin == event.OriginUser:
		return []Event{{Kind: StatusInfo, Channel: User, Message: "prompt accepted"}}
	case f.Origin == event.OriginSystem:
		return []Event{{Kind: StatusInfo, Channel: System, Message: f.Content, Data: parent(it)}}
	case f.Origin != event.OriginAgent:
		return []Event{{Kind: Unknown, Channel: string(event.TypeMessage), Data: final(f)}}
	}
	return texts(speaker(it), f.Content, parent(it))
}

// speaker returns the channel of an agent's message.
func speaker(it event.Item) string {
	if it.ParentCallID != "" {
		return Subagent
	}
	return Assistant
}

// broken returns the events for an item that failed or was cancelled: its text
// so far, then its end. A tool call ends with a ToolResult.
func (s *Stream) broken(ev event.Event, id string, end Event) []Event {
	end.Channel = event.Type(ev.Body)
	it, ok := s.items.Item(id)
	if !ok || s.items.Apply(ev) == "" {
		return []Event{end}
	}
	s.items.Release(id)
	switch it.Type {
	case event.TypeMessage:
		return append(texts(speaker(it), it.Content, parent(it)), end)
	case event.TypeReasoning:
		return append(texts(Reasoning, it.Content, parent(it)), end)
	case event.TypeFunctionCall, event.TypeFunctionCallOutput:
		tool := s.tool(it, it.CallID)
		delete(s.calls, it.CallID)
		tool.Phase, tool.Status = "fail", "failed"
		return []Event{{Kind: ToolResult, Channel: Tool, Message: end.Message, Data: s.facet(tool, ResultsFacet{})}}
	}
	return []Event{end}
}

// updated returns the events for changed properties of the session. The first
// id of the conversation is reported in a separate event.
func (s *Stream) updated(b event.SessionUpdated) []Event {
	var out []Event
	handle := Handle(b.AgentSessionID)
	if first := s.thread == "" && handle != nil; first {
		out = append(out, Event{Kind: StatusInfo, Channel: event.Type(b), Message: "session started", Data: handle})
	}
	if handle != nil {
		s.thread = b.AgentSessionID
	}
	if len(out) > 0 {
		b.AgentSessionID = ""
		if reflect.ValueOf(b).IsZero() {
			return out
		}
	}
	return append(out, status(b, "")...)
}

// asked returns the event for an approval. Without Results it omits the title
// and the reason too, because they often repeat the arguments.
func (s *Stream) asked(b event.ApprovalRequested) []Event {
	message := b.Approval.Title
	if !s.Results {
		a := &b.Approval
		a.Title, a.Why, a.Arguments, a.Changes = "", "", nil, nil
		message = a.ToolName
	}
	return status(b, message)
}

func (s *Stream) remember(turn string, f event.FunctionCall) {
	if s.calls == nil {
		s.calls = make(map[string]call)
	}
	s.calls[f.CallID] = call{turn, f.Name, f.Kind}
}

// drop forgets the items and calls of a turn that has ended.
func (s *Stream) drop(turn string) {
	s.items.DropTurn(turn)
	maps.DeleteFunc(s.calls, func(_ string, c call) bool { return c.turn == turn })
}

func status(b event.Body, message string) []Event {
	return []Event{{Kind: StatusInfo, Channel: event.Type(b), Message: message, Data: body(b)}}
}

// parent returns data that names the call whose subagent produced the item, or
// nil.
func parent(it event.Item) json.RawMessage {
	if it.ParentCallID == "" {
		return nil
	}
	return encode(struct {
		ParentUseID string `json:"parent_use_id"`
	}{it.ParentCallID})
}

func body(b event.Body) json.RawMessage {
	data, err := event.MarshalBody(b)
	if err != nil {
		return nil
	}
	return data
}

func final(f event.FinalItem) json.RawMessage {
	data, err := event.MarshalFinal(f)
	if err != nil {
		return nil
	}
	return data
}
