package acp

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// After each turn, Qwen Code (0.24.4) has a model look for what it should remember, and
// sometimes tidy up what it remembers. These agents work in the mode yolo in every
// session, and show nothing. They read every file, and run each command that
// Qwen Code takes for one that only reads, which is wrong for some (askfirst.go).

// qwenMemoryReason is what the model of such an agent reads.
const qwenMemoryReason = "Unless Runnel allows bypass, an agent in the mode yolo reads memories and edits files, and does nothing else."

// qwenMemoryOnly returns env, changed so that agents of Qwen Code which nobody can see
// read and write memories, and do nothing else. A hook denies the rest of
// what they do in the mode yolo. If the session itself may have that mode, or
// Qwen Code runs no hooks, the default settings switch its memory off.
func qwenMemoryOnly(env []string, opt runnel.Options) ([]string, error) {
	if opt.AllowBypass || !qwenRunsHooks(env, opt.Dir) {
		return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
			return within(settings, "memory", func(memory map[string]json.RawMessage) error {
				for _, name := range []string{"enableManagedAutoMemory", "enableManagedAutoDream", "enableAutoSkill"} {
					memory[name] = json.RawMessage("false")
				}
				return nil
			})
		})
	}
	var memories []string
	for _, root := range append(qwenMemories(env, opt.Dir), inHome(".qwen", "memories")(env)) {
		memories = append(memories, shellQuoted(`{"file_path":`+strings.TrimSuffix(string(translate.Object(root+string(filepath.Separator))), `"`))+"*")
	}
	// With "continue", no other hook can allow the call; see qwenSubagentsAsk.
	answer := translate.Object(map[string]any{"continue": false, "stopReason": qwenMemoryReason, "hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": qwenMemoryReason,
	}})
	// The model writes the arguments of the call, and nothing before them. Qwen Code
	// itself limits what these agents write.
	command := `runnel_call=$(cat); runnel_input=${runnel_call#*'"tool_input":'}; runnel_call=${runnel_call%%'"tool_input":'*}; ` +
		`case $runnel_call in *'"permission_mode":"yolo"'*) ;; *) exit 0 ;; esac; ` +
		`case $runnel_call in *'"tool_name":"write_file"'*|*'"tool_name":"edit"'*) exit 0 ;; *'"tool_name":"read_file"'*) ` +
		`case $runnel_input in *..*) ;; ` + strings.Join(memories, "|") + `) exit 0 ;; esac ;; esac; echo ` + shellQuoted(string(answer))
	hook := translate.Object(map[string]any{"hooks": []any{map[string]string{"type": "command", "name": "runnel-memory", "command": command}}})
	return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
		return within(settings, "hooks", func(hooks map[string]json.RawMessage) error {
			return appendTo(hooks, "PreToolUse", hook)
		})
	})
}

// shellQuoted returns text as one word of a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
