package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
	"github.com/runnel-dev/runnel/provider/claude/plugins"
)

// claudeAgent returns the quirks of @agentclientprotocol/claude-agent-acp, as
// observed in 0.49.0 and 0.100.0.
func claudeAgent() *quirks {
	mode := func(value string) []setting { return []setting{{"mode", value}} }
	return &quirks{
		startup: startupQuirks{
			modes: map[runnel.PermissionMode][]setting{
				runnel.ModeDefault: mode("default"), runnel.ModeAcceptEdits: mode("acceptEdits"), runnel.ModePlan: mode("plan"),
				runnel.ModeBypass: mode("bypassPermissions"),
			},
			bypass:        []setting{{"mode", "bypassPermissions"}, {"mode", "auto"}},
			prepare:       claudeOptions,
			passesOptions: true, passesDisallowed: true,
			showsThinking:   true,
			programVariable: "CLAUDE_CODE_EXECUTABLE",
			worktrees:       filepath.Join(".claude", "worktrees"),
			environ: func(opt runnel.Options) []string {
				env := []string{
					"CLAUDE_CODE_THINKING_DISPLAY=" + string(cmp.Or(opt.ThinkingDisplay, runnel.ThinkingSummarized)),
					"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1", // else the arguments of a skill, which the model chooses, have files read without asking
					"CLAUDE_CODE_HARBOR_KITE=0",           // else the model lists and messages the user's other sessions without asking
				}
				if !opt.Trusted {
					env = append(env, "CLAUDE_CODE_DISABLE_CRON=1") // the scheduler sends prompts that a file of the folder contains
				}
				return env
			},
			subagentTools: claudeSubagents,
			subagentKey:   "subagent_type",
			delegations:   []runnel.Delegation{runnel.DelegateAsking, runnel.DelegateNever},
			notices:       true, // recording settings
		},
		live: liveQuirks{
			literal:    claudeText,
			inputGrows: true, // recording tool
			unasked:    []string{"exit-plan-auto", "exit-plan-clear-auto"},

			mentionsInFiles: true, // the agent puts the texts of attachments behind the prompt
			costContinues: func(release string) bool { // recording resume; 0.49.0 starts at 0 again
				var major, minor int
				_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
				return err != nil || major > 0 || minor >= 100
			},
			name: func(tc toolCall) string { // recording tool
				return translate.DecodeLenient[claudeMeta](metaOf(tc.raw)).ClaudeCode.ToolName
			},
			parent: func(meta json.RawMessage) string { // recording subagent
				return translate.DecodeLenient[claudeMeta](meta).ClaudeCode.Parent
			},
			output: func(c *call) (string, *int) { // recording tool
				if s := translate.DecodeLenient[string](c.rawOutput); s != "" {
					return s, nil
				}
				return unfenced(c.text()), nil
			},
		},
		replay: replayQuirks{
			interrupted: func(text string) bool { // load
				return strings.HasPrefix(text, "[Request interrupted by user")
			},
			userPart: linkedPart,
		},
	}
}

// claudeSubagents lists all names of the tools that start or continue subagents.
var claudeSubagents = []string{"Agent", "Task", "Workflow", "SendMessage"}

// claudeSchedules lists the tools by which the model makes the agent begin turns
// later, by itself.
var claudeSchedules = []string{"CronCreate", "ScheduleWakeup"}

// claudeMoves lists the tools by which the model makes the agent work in another folder.
var claudeMoves = []string{"EnterWorktree"}

type claudeMeta struct {
	ClaudeCode struct {
		ToolName string `json:"toolName"`
		Parent   string `json:"parentToolUseId"`
	} `json:"claudeCode"`
}

var fence = regexp.MustCompile("^```[a-z]*\n((?s).*)\n```$")

// unfenced removes the code block in which the agent wraps an output (recording
// tool).
func unfenced(text string) string {
	if m := fence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`) })

// claudeOptions passes on options that Claude Code supports and the protocol
// lacks. The settings in a folder can run commands, so Claude Code reads them
// only in a trusted folder.
func claudeOptions(env []string, opt runnel.Options, params map[string]any) error {
	options := map[string]any{"settingSources": []string{"user"}, "forwardSubagentText": true} // recording subagent
	if opt.Trusted {
		options["settingSources"] = []string{"user", "project", "local"}
	}
	disallowed := opt.AllDisallowedTools()
	if opt.Delegation == runnel.DelegateNever {
		disallowed = append(disallowed, claudeSubagents...)
	}
	for _, tool := range slices.Concat(opt.Tools, disallowed) { // becomes a command-line argument; --settings=… could run commands
		if !toolName().MatchString(tool) {
			return runnel.Fail(runnel.InvalidRequest, "tools: a name has only letters, digits and . _ : / @ -, and begins with a letter or digit")
		}
	}
	if len(disallowed) > 0 {
		options["disallowedTools"] = disallowed
	}
	permissions := map[string]any{"disableAutoMode": "disable"} // else a model decides about calls in the plan mode, which the model can enter by itself
	if ask := agentconn.AskTools(opt, claudeSchedules, claudeMoves, claudeSubagents); len(ask) > 0 {
		permissions["ask"] = ask
	}
	if opt.Trusted && len(opt.UntrustedDirs) > 0 {
		// The agent obeys skills and subagents of the directories of the request, but
		// not of those of the setting.
		trusted := slices.DeleteFunc(slices.Clone(opt.AddDirs), func(dir string) bool { return slices.Contains(opt.UntrustedDirs, dir) })
		params["additionalDirectories"], permissions["additionalDirectories"] = trusted, opt.UntrustedDirs
	}
	settings := map[string]any{
		"crossSessionInbound": "refuse", // a message from another session would begin a turn
		"permissions":         permissions,
	}
	if !opt.Trusted {
		if off := plugins.Off(env); len(off) > 0 {
			settings["enabledPlugins"] = off
		}
	}
	options["settings"] = settings
	if len(opt.Tools) > 0 {
		options["tools"] = opt.Tools
	}
	if opt.MaxTurns > 0 {
		options["maxTurns"] = opt.MaxTurns
	}
	if agents := claudeAgents(opt); len(agents) > 0 {
		options["agents"] = agents
	}
	meta := map[string]any{"claudeCode": map[string]any{"options": options}}
	if opt.SystemPromptAppend != "" {
		meta["systemPrompt"] = map[string]any{"append": opt.SystemPromptAppend}
	}
	params["_meta"] = meta
	return nil
}

// claudeAgents returns the definitions of the subagents in opt, by name.
func claudeAgents(opt runnel.Options) map[string]any {
	out := make(map[string]any, len(opt.Subagents))
	for _, s := range opt.Subagents {
		def := map[string]any{"description": s.Description, "prompt": cmp.Or(s.Prompt, s.Description)}
		if len(s.Tools) > 0 {
			def["tools"] = s.Tools
		}
		if s.Model != "" {
			def["model"] = s.Model
		}
		out[s.Name] = def
	}
	return out
}

// claudeText returns the blocks of a prompt such that Claude Code does not
// interpret the text. Claude Code drops a prompt that begins with a slash and
// the name of an unknown command, and it reads any file whose name follows an
// @. It checks only the last text block, so claudeText moves the text after the
// slash or the @ into a second block. Known commands stay in one block.
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
	for cut < len(text) && text[cut] == '/' { // else the second block would begin with a slash
		cut++
	}
	if cut = min(cut, len(text)-1); cut <= 0 {
		return []any{textBlock(text)}
	}
	return []any{textBlock(text[:cut]), textBlock(text[cut:])}
}
