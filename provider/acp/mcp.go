package acp

import (
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// mcpCall is a call of an MCP server's tool, for agents that wrap the tool's
// arguments and result in objects of their own.
type mcpCall struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    mcpResult       `json:"-"`
}

type mcpResult struct {
	Result *struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// mcpPrefix is the prefix of the names of MCP servers' tools.
const mcpPrefix = "mcp__"

// plain returns tc with the tool's own name, arguments and result. An update of
// a call may omit the tool's name and arguments.
func (m *mcpCall) plain(tc toolCall) toolCall {
	tc.Title, tc.ToolKind, tc.RawInput, tc.RawOutput = "", "", nil, nil
	if m.Tool != "" {
		tc.Name, tc.Title, tc.ToolKind = mcpPrefix+m.Server+"__"+m.Tool, m.Server+": "+m.Tool, string(event.KindOther)
		tc.RawInput = m.Arguments
	}
	if r := m.Result.Result; r != nil {
		tc.RawOutput, tc.shown = r.Structured, []toolContent{}
		for _, b := range r.Content[:min(len(r.Content), maxContent)] {
			tc.shown = append(tc.shown, toolContent{Type: "content", Content: b})
		}
	}
	if e := m.Result.Error; e != nil {
		tc.shown = []toolContent{{Type: "content", Content: block{Type: "text", Text: e.Message}}}
	}
	return tc
}
