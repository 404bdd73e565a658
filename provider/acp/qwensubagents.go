package acp

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// qwenAsksItself lists the tools of Qwen Code about which a subagent need not ask:
// those that change nothing outside of the conversation, and commands, worktrees and
// tools of MCP servers, about which it asks nevertheless.
var qwenAsksItself = []string{
	"read_file", "zoom_image", "display_image", "grep_search", "glob", "list_directory",
	"todo_write", "tool_search", "list_agents", "cron_list", "task_list", "task_stop", "get_goal", "update_goal",
	"structured_output", "report_findings", "enter_plan_mode", "exit_plan_mode", "enter_worktree",
	"run_shell_command", "monitor",
}

// qwenHookReason is shown with a question about a call of a subagent. The model reads
// it if nobody can be asked.
const qwenHookReason = "Calls of subagents are asked about, except for commands that were allowed and for reading. " +
	"A subagent in the background cannot ask: start it with run_in_background false."

// qwenSubagentsAsk returns env, changed so that subagents of Qwen Code ask. In a
// session in the mode default, they work in the mode auto-edit (0.24.4). In a folder
// that Qwen Code does not trust, they would not, but there it starts no MCP server and
// reads no file for the model. So a hook asks before each of their calls. If Qwen Code
// would not run it, there are no subagents.
func qwenSubagentsAsk(env []string, opt runnel.Options) ([]string, error) {
	if !qwenRunsHooks(env, opt.Dir) {
		return qwenNeverDelegates(env)
	}
	harmless := `*'"tool_name":"mcp__'*`
	for _, tool := range qwenAsksItself {
		harmless += `|*'"tool_name":"` + tool + `"'*`
	}
	// Qwen Code obeys the decision of the last hook, which may be one of the user. If that
	// one allows the call, Qwen Code obeys "continue", by which the call fails.
	answer := translate.Object(map[string]any{"continue": false, "stopReason": qwenHookReason, "hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": qwenHookReason,
	}})
	who := `*'"permission_mode":"auto'[-_]'edit"'*`
	if opt.AllowBypass { // the session itself may be in that mode
		who += `'"agent_id":"'*`
	}
	// The model writes the arguments of the call, and nothing before them.
	command := `runnel_call=$(cat); runnel_call=${runnel_call%%'"tool_input":'*}; case $runnel_call in ` + harmless + `) ;; ` +
		who + `) echo '` + string(answer) + `' ;; esac`
	hook := translate.Object(map[string]any{"hooks": []any{map[string]string{"type": "command", "name": "runnel", "command": command}}})
	return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
		return within(settings, "hooks", func(hooks map[string]json.RawMessage) error {
			return appendTo(hooks, "PreToolUse", hook)
		})
	})
}

// qwenRunsHooks reports whether Qwen Code runs hooks of Runnel in dir.
func qwenRunsHooks(env []string, dir string) bool {
	if runtime.GOOS == "windows" { // has another shell
		return false
	}
	paths := append(qwenSettings(env), filepath.Join(dir, ".qwen", "settings.json"))
	for _, e := range env {
		if path, ok := variable(e, qwenDefaults.settings); ok && path != "" {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		b, err := readPlain(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		off := translate.DecodeLenient[map[string]json.RawMessage](withoutComments(b))["disableAllHooks"]
		if err != nil || off != nil && !slices.Contains([]string{"false", "null"}, string(off)) {
			return false // also for a text, which may name a variable
		}
	}
	return true
}
