package acp

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// claudeAgent is @agentclientprotocol/claude-agent-acp, seen at 0.49.0.
func claudeAgent() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		modes: map[runnel.PermissionMode][]setting{
			runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("acceptEdits"), runnel.ModePlan: mode("plan"),
			runnel.ModeDontAsk: mode("dontAsk"), runnel.ModeBypass: mode("bypassPermissions"),
		},
		bypass: []setting{{"mode", "bypassPermissions"}, {"mode", "auto"}},
		name: func(tc toolCall) string { // tool
			return decodeLoose[claudeMeta](metaOf(tc.raw)).ClaudeCode.ToolName
		},
		parent: func(meta json.RawMessage) string { // subagent
			return decodeLoose[claudeMeta](meta).ClaudeCode.Parent
		},
		output: func(c *call) (string, *int) { // tool
			if s := decodeLoose[string](c.rawOutput); s != "" {
				return s, nil
			}
			return unfenced(c.text()), nil
		},
		interrupted: func(text string) bool { // load
			return strings.HasPrefix(text, "[Request interrupted by user")
		},
		userPart: linkedPart,
		literal:  claudeText,
		prepare:  claudeOptions, passesOptions: true,
	}
}

type claudeMeta struct {
	ClaudeCode struct {
		ToolName string `json:"toolName"`
		Parent   string `json:"parentToolUseId"`
	} `json:"claudeCode"`
}

var fence = regexp.MustCompile("^```[a-z]*\n((?s).*)\n```$")

// unfenced takes output out of the code block that it was put into (tool).
func unfenced(text string) string {
	if m := fence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`)

// claudeOptions passes on what Claude Code can do and the protocol has no word
// for. The folder's own settings may run commands: they are read only if it is
// trusted.
func claudeOptions(opt runnel.Options, params map[string]any) error {
	options := map[string]any{"settingSources": []string{"user"}}
	if opt.Trusted {
		options["settingSources"] = []string{"user", "project", "local"}
	}
	for _, tool := range opt.Tools { // it is put on a command line, where --settings=… runs what it says
		if !toolName.MatchString(tool) {
			return runnel.Fail(runnel.InvalidRequest, "tools: may hold letters, digits and . _ : / @ - only, and must begin with a letter or digit")
		}
	}
	if len(opt.Tools) > 0 {
		options["tools"] = opt.Tools
	}
	if opt.MaxTurns > 0 {
		options["maxTurns"] = opt.MaxTurns
	}
	meta := map[string]any{"claudeCode": map[string]any{"options": options}}
	if opt.SystemPromptAppend != "" {
		meta["systemPrompt"] = map[string]any{"append": opt.SystemPromptAppend}
	}
	params["_meta"] = meta
	return nil
}

// claudeText keeps Claude Code from taking text for what it is not: it drops a
// prompt that begins with the name of an unknown command, and has files read
// whose names follow an @, wherever they are. It looks at the last text only,
// so what follows these signs is one of its own.
func claudeText(text, dir string, isCommand func(string) bool) []any {
	cut := 0
	switch name, _, _ := strings.Cut(strings.TrimPrefix(text, "/"), " "); {
	case text != "" && text[0] == '/' && isCommand(name):
		return []any{textBlock(text)}
	case agentconn.MentionsOutside(text, dir):
		cut = strings.LastIndexByte(text, '@') + 1
	case strings.HasPrefix(text, "/"):
		cut = 1
	default:
		return []any{textBlock(text)}
	}
	for cut < len(text) && text[cut] == '/' { // or that would be a command again
		cut++
	}
	if cut = min(cut, len(text)-1); cut <= 0 {
		return []any{textBlock(text)}
	}
	return []any{textBlock(text[:cut]), textBlock(text[cut:])}
}
