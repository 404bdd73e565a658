package acp

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// copilotMode begins the values of its modes.
const copilotMode = "https://agentclientprotocol.com/protocol/session-modes#"

// copilot is @github/copilot, seen at 1.0.102.
func copilot() *quirks {
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			runnel.ModeDefault: {{"mode", copilotMode + "agent"}, {"allow_all", "off"}},
			runnel.ModePlan:    {{"mode", copilotMode + "plan"}, {"allow_all", "off"}},
			runnel.ModeBypass:  {{"mode", copilotMode + "agent"}, {"allow_all", "on"}},
		},
		bypass:  []setting{{"allow_all", "on"}, {"mode", copilotMode + "autopilot"}},
		running: true, // tool
		totals:  true, // text
		onePart: true, // failure
		name:    copilotTool,
		output: func(c *call) (string, *int) { // tool
			text := c.text()
			m := shellEnd.FindStringSubmatchIndex(text)
			if m == nil {
				return text, nil
			}
			code := number(text[m[2]:m[3]], -1)
			return text[:m[0]], &code
		},
		own: func(text string) bool { // approval-denied, failure
			return strings.HasPrefix(text, "Info: ") || strings.HasPrefix(text, "Error: ")
		},
		failed: func(tn *turn, u *event.Usage) bool { // failure
			return u == nil && strings.HasPrefix(tn.said, "Error: ")
		},
	}
}

// shellEnd is what it puts after a command's output (tool).
var shellEnd = regexp.MustCompile(`\n?<shellId: [^>\n]* completed with exit code (-?\d+)>$`)

// copilotTool names a tool by its arguments: its title is what the model calls
// what it does (tool).
func copilotTool(tc toolCall) string {
	if tc.ToolKind != "execute" {
		return ""
	}
	if in := decodeLoose[map[string]json.RawMessage](tc.RawInput); in["command"] != nil {
		return "bash"
	}
	return ""
}
