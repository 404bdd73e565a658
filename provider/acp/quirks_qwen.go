package acp

import (
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// qwen is @qwen-code/qwen-code, a fork of Gemini CLI, seen at 0.15.10 and
// 0.24.4.
func qwen() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("auto-edit"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
			},
			bypass: []setting{{"mode", "yolo"}},
		},
		live: liveQuirks{
			wholeFiles: true, // edit
			forSession: []string{"proceed_always"},
			name: func(tc toolCall) string { // tool
				return translate.Loose[qwenMeta](metaOf(tc.raw)).ToolName
			},
			parent: func(meta json.RawMessage) string { // subagent
				return translate.Loose[qwenMeta](meta).Parent
			},
			output: qwenOutput,
			callUsage: func(meta json.RawMessage) *usage { // text
				return translate.Loose[qwenMeta](meta).Usage
			},
		},
	}
}

type qwenMeta struct {
	ToolName string `json:"toolName"`
	Parent   string `json:"parentToolCallId"`
	Usage    *usage `json:"usage"` // of one call of the model
}

var (
	qwenExit = regexp.MustCompile(`\nExit Code: (\d+)\n`)
	// qwenEmpty is the text for the model about a command without output, for
	// which nothing is displayed (approval-allowed).
	qwenEmpty = regexp.MustCompile(`^Command: [\s\S]*\nOutput: \(empty\)\nError: \(none\)\n`)
)

// qwenOutput returns the output of a call as it is displayed, and the exit code
// of a command from the text for the model, where it follows the output (tool).
func qwenOutput(c *call) (string, *int) {
	told := c.text()
	var code *int
	if m := qwenExit.FindAllStringSubmatch(told, -1); m != nil && c.kind == event.KindExecute {
		if n, err := strconv.Atoi(m[len(m)-1][1]); err == nil {
			code = &n
		}
	}
	if shown := translate.Loose[string](c.rawOutput); shown != "" {
		return shown, code
	}
	if code != nil && qwenEmpty.MatchString(told) {
		return "", code
	}
	return told, code
}
