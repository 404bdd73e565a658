package acp

import (
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// mcpCall is a call of a tool of an MCP server, as an agent describes it that
// wraps its arguments and its result.
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

// mcpPrefix begins the names of tools of MCP servers.
const mcpPrefix = "mcp__"

// plain returns the description of a call in the form of other calls: with the
// tool's own arguments and result. A later description may lack the tool.
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
