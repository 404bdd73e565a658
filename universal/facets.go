package universal

import (
	"cmp"
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// The schemas of facets, which are also the capabilities that they belong to.
const (
	ToolsSchema   = "agent_api.tools.structured.v1"
	ResultsSchema = "agent_api.tools.results.v1"
	HandleSchema  = "agent_api.session.handle.v1"
)

// maxHandle bounds the id in a [HandleFacet], in bytes. An id is never cut: a
// part of it could be the id of something else.
const maxHandle = event.MaxAgentSessionID

// A ToolFacet is the data of every ToolCall and ToolResult. It describes the
// call and holds neither arguments nor output. Results has them for a [Stream]
// that was asked for results.
type ToolFacet struct {
	Schema  string          `json:"schema"` // ToolsSchema
	Tool    ToolInfo        `json:"tool"`
	Results json.RawMessage `json:"results,omitempty"` // a ResultsFacet, or {"dropped":{"reason":"oversize"}}
}

// A ToolInfo describes a tool call. What is not known is null.
type ToolInfo struct {
	BackendItemID *string   `json:"backend_item_id"` // the agent's own id of the item
	ThreadID      *string   `json:"thread_id"`       // the agent's id of the conversation
	TurnID        *string   `json:"turn_id"`
	Kind          string    `json:"kind"`   // such as execute, read, edit; new ones may come
	Phase         string    `json:"phase"`  // start, complete or fail
	Status        string    `json:"status"` // running, completed or failed
	ExitCode      *int      `json:"exit_code"`
	Bytes         ToolBytes `json:"bytes"`
	ToolName      *string   `json:"tool_name"`
	ToolUseID     *string   `json:"tool_use_id"` // ties a result to its call
	ParentUseID   *string   `json:"parent_use_id,omitempty"`
}

// ToolBytes are the sizes of what a tool gave. Agents write the output and the
// errors of a command as one text, which counts as Stdout.
type ToolBytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
	Diff   int64 `json:"diff"`
	Result int64 `json:"result"`
}

// A ResultsFacet has the arguments of a call, or what the tool gave.
type ResultsFacet struct {
	Schema    string          `json:"schema"` // ResultsSchema
	Title     string          `json:"title,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of a ToolCall
	Output    *string         `json:"output,omitempty"`    // of a ToolResult
	Changes   []event.Change  `json:"changes,omitzero"`
}

// A HandleFacet has the agent's id of the conversation, with which a later run
// can resume it.
type HandleFacet struct {
	Schema  string        `json:"schema"` // HandleSchema
	Session SessionHandle `json:"session"`
}

// A SessionHandle identifies a conversation of an agent.
type SessionHandle struct {
	ID string `json:"id"`
}

// Handle returns the [HandleFacet] of a conversation; nil if the id is empty or
// longer than 1,024 bytes.
func Handle(agentSessionID string) json.RawMessage {
	if agentSessionID == "" || len(agentSessionID) > maxHandle {
		return nil
	}
	return encode(HandleFacet{HandleSchema, SessionHandle{agentSessionID}})
}

// encode returns v as JSON; nil if v cannot be encoded, such as arguments that
// are no JSON.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// tool describes the call of an item.
func (s *Stream) tool(it event.Item, callID string) ToolInfo {
	call := s.calls[callID]
	return ToolInfo{
		BackendItemID: known(cmp.Or(it.Native["itemId"], it.Native["messageId"])), ThreadID: known(s.thread), TurnID: known(it.Turn),
		Kind: cmp.Or(string(call.Kind), string(event.KindOther)), ToolName: known(cmp.Or(call.Name, it.Name)), ToolUseID: known(callID),
		ParentUseID: known(it.ParentCallID),
	}
}

// facet returns the data of a ToolCall or ToolResult. Results that are too large
// are dropped alone, so that the description of the call stays.
func (s *Stream) facet(tool ToolInfo, results ResultsFacet) json.RawMessage {
	f := ToolFacet{Schema: ToolsSchema, Tool: tool}
	if s.Results {
		results.Schema = ResultsSchema
		f.Results = encode(results)
	}
	data := encode(f)
	if len(data) > maxData && f.Results != nil {
		f.Results = json.RawMessage(oversizeData)
		data = encode(f)
	}
	return data
}

// sizes returns the sizes of what a tool gave.
func sizes(kind string, f event.FunctionCallOutput) ToolBytes {
	var b ToolBytes
	size := max(int64(len(f.Output)), f.TotalBytes)
	if kind == string(event.KindExecute) {
		b.Stdout = size
	} else {
		b.Result = size
	}
	for _, c := range f.Changes {
		for _, h := range c.Hunks {
			for _, line := range h.Lines {
				b.Diff += int64(len(line)) + 1
			}
		}
	}
	return b
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
