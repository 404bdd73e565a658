package universal

import (
	"cmp"
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// The schemas of facets. Each is also the name of the capability that provides
// it.
const (
	ToolsSchema   = "agent_api.tools.structured.v1"
	ResultsSchema = "agent_api.tools.results.v1"
	HandleSchema  = "agent_api.session.handle.v1"
)

// maxHandle bounds the id in a [HandleFacet], in bytes. An id is never cut,
// because a part of it could be the id of something else.
const maxHandle = event.MaxAgentSessionID

// A ToolFacet is the data of every ToolCall and ToolResult. It describes the
// call without its arguments and output. Those are in Results if
// [Stream.Results] is set.
type ToolFacet struct {
	Schema  string          `json:"schema"` // ToolsSchema
	Tool    ToolInfo        `json:"tool"`
	Results json.RawMessage `json:"results,omitempty"` // a ResultsFacet, or {"dropped":{"reason":"oversize"}}
}

// A ToolInfo describes a tool call. Unknown values are null.
type ToolInfo struct {
	BackendItemID *string   `json:"backend_item_id"` // the agent's own id of the item
	ThreadID      *string   `json:"thread_id"`       // the agent's id of the conversation
	TurnID        *string   `json:"turn_id"`
	Kind          string    `json:"kind"`   // such as execute, read, edit; clients must accept new kinds
	Phase         string    `json:"phase"`  // start, complete or fail
	Status        string    `json:"status"` // running, completed or failed
	ExitCode      *int      `json:"exit_code"`
	Bytes         ToolBytes `json:"bytes"`
	ToolName      *string   `json:"tool_name"`
	ToolUseID     *string   `json:"tool_use_id"` // id of the call; its result has the same id
	ParentUseID   *string   `json:"parent_use_id,omitempty"`
}

// ToolBytes are the sizes of the output of a tool, in bytes. Agents report the
// output and the errors of a command as one text, which counts as Stdout.
type ToolBytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
	Diff   int64 `json:"diff"`
	Result int64 `json:"result"`
}

// A ResultsFacet holds the arguments of a call or its output.
type ResultsFacet struct {
	Schema    string          `json:"schema"` // ResultsSchema
	Title     string          `json:"title,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of a ToolCall
	Output    *string         `json:"output,omitempty"`    // of a ToolResult
	Changes   []event.Change  `json:"changes,omitzero"`
}

// A HandleFacet holds the agent's id of the conversation. A later run can
// resume the conversation with it.
type HandleFacet struct {
	Schema  string        `json:"schema"` // HandleSchema
	Session SessionHandle `json:"session"`
}

// A SessionHandle identifies a conversation of an agent.
type SessionHandle struct {
	ID string `json:"id"`
}

// Handle returns the [HandleFacet] of a conversation as JSON. It returns nil if
// the id is empty or longer than 1,024 bytes.
func Handle(agentSessionID string) json.RawMessage {
	if agentSessionID == "" || len(agentSessionID) > maxHandle {
		return nil
	}
	return encode(HandleFacet{HandleSchema, SessionHandle{agentSessionID}})
}

// encode returns v as JSON, or nil if v cannot be encoded, for example because
// its arguments are not valid JSON.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// tool describes the call of an item.
func (s *Stream) tool(it event.Item, callID string) ToolInfo {
	c := s.calls[callID]
	return ToolInfo{
		BackendItemID: known(cmp.Or(it.Native["itemId"], it.Native["messageId"])), ThreadID: known(s.thread), TurnID: known(it.Turn),
		Kind: cmp.Or(string(c.kind), string(event.KindOther)), ToolName: known(cmp.Or(c.name, it.Name)), ToolUseID: known(callID),
		ParentUseID: known(it.ParentCallID),
	}
}

// facet returns the data of a ToolCall or ToolResult. If the results are too
// large it drops only them, so that the description of the call stays.
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

// sizes returns the sizes of a tool's output.
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
