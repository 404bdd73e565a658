package acp

import "github.com/runnel-dev/runnel"

// qwen is @qwen-code/qwen-code, a fork of Gemini CLI.
func qwen() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("auto-edit"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
			},
			bypass: []setting{{"mode", "yolo"}},
		},
		live: liveQuirks{wholeFiles: true},
	}
}
