package acp

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
)

// gemini is @google/gemini-cli, seen at 0.61.0.
func gemini() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("autoEdit"), runnel.ModePlan: mode("plan"), runnel.ModeBypass: mode("yolo"),
		},
		bypass:     []setting{{"mode", "yolo"}},
		forSession: []string{"proceed_always"}, // "Allow for this session" (approval-allowed)
		wholeFiles: true,                       // edit
		replayEnds: true,                       // load
		name:       geminiTool,
		environ:    geminiTrust,
		usage: func(meta json.RawMessage) *usage { // text
			count := decodeLoose[struct {
				Quota struct {
					Count *struct {
						Input  int64 `json:"input_tokens"`
						Output int64 `json:"output_tokens"`
					} `json:"token_count"`
				} `json:"quota"`
			}](meta).Quota.Count
			if count == nil {
				return nil
			}
			return &usage{Input: count.Input, Output: count.Output}
		},
	}
}

// geminiTool finds the name of a tool in the id of a call (tool).
func geminiTool(tc toolCall) string {
	name, _, ok := strings.Cut(tc.ID, "__")
	if !ok {
		return ""
	}
	return name
}

// geminiTrust says whether the folder's settings count. Where they do not, it
// has no modes either that ask less; so where there are none, it may have them.
func geminiTrust(opt runnel.Options) []string {
	trusted := opt.Trusted || obeyed(opt.Dir, []string{".gemini", "**/.gemini/.env", "**/.env", ".agents", "GEMINI.md"}) == ""
	return []string{"GEMINI_CLI_TRUST_WORKSPACE=" + strconv.FormatBool(trusted)}
}
