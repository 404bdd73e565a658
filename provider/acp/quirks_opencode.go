package acp

import (
	"encoding/json"
	"slices"

	"github.com/runnel-dev/runnel"
)

// opencode is opencode-ai, seen at 1.18.33.
func opencode() *quirks {
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			runnel.ModeDefault: {{"mode", "build"}}, runnel.ModePlan: {{"mode", "plan"}},
		},
		lateInput: true, // approval-allowed
		running:   true, // tool
		noBlobs:   true, // it keeps the document, and fails at every later prompt
		name:      opencodeTool,
		output: func(c *call) (string, *int) { // tool
			raw := decodeLoose[struct {
				Metadata struct {
					Exit *int `json:"exit"`
				} `json:"metadata"`
			}](c.rawOutput)
			return c.text(), raw.Metadata.Exit
		},
		steps: func(c *call) []planEntry { // plan
			return decodeLoose[struct {
				Todos []planEntry `json:"todos"`
			}](c.input).Todos
		},
		environ: opencodeAsks,
	}
}

// opencodeTool names a tool by its arguments: its name is the title of a live
// call until the arguments are there, and is not said when it loads (tool, load).
func opencodeTool(tc toolCall) string {
	in := decodeLoose[map[string]json.RawMessage](tc.RawInput)
	switch {
	case tc.ToolKind == "execute":
		return "bash"
	case in["todos"] != nil || tc.Title == "todowrite":
		return "todowrite"
	case slices.Contains([]string{"write", "edit", "read", "grep", "glob", "list", "webfetch", "task", "patch"}, tc.Title):
		return tc.Title
	case tc.ToolKind == "edit" && in["content"] != nil:
		return "write"
	}
	return tc.ToolKind
}

// opencodeAsks makes it ask before it runs a command or changes a file, which
// it does not do of its own accord.
func opencodeAsks(opt runnel.Options) []string {
	rule := map[string]string{"bash": "ask", "edit": "ask", "webfetch": "ask"}
	switch opt.PermissionMode {
	case runnel.ModeAcceptEdits:
		rule["edit"] = "allow"
	case runnel.ModeBypass:
		rule = map[string]string{"bash": "allow", "edit": "allow", "webfetch": "allow"}
	}
	b, err := json.Marshal(rule)
	if err != nil {
		return nil
	}
	return []string{"OPENCODE_PERMISSION=" + string(b)}
}
