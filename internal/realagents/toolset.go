package realagents

import (
	"fmt"
	"strings"

	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// A Toolset makes the tool calls by which a model runs commands and edits files
// in one agent. Tools differ between agents; Toolsets let one test drive all of
// them.
type Toolset struct {
	Shell func(command string) fakemodel.Block // runs a command
	Ask   func(command string) fakemodel.Block // runs a command for which the agent requests approval
	Write func(path, content string) fakemodel.Block
	Edit  func(path, old, new string) fakemodel.Block // replaces one line
	Plan  func(first, second string) fakemodel.Block
	Read  func(path string) fakemodel.Block // nil if the agent reads files with commands only

	OmitsOutput bool // the agent does not report the output of a command
}

// ToolsetOf returns the Toolset of the agent with this provider name. It panics
// for an unknown agent.
func ToolsetOf(name string) Toolset {
	w, ok := toolsets[name]
	if !ok {
		panic(fmt.Sprintf("realagents: no tool calls for the agent %q", name))
	}
	if w.Ask == nil {
		w.Ask = w.Shell
	}
	return w
}

var toolsets = map[string]Toolset{
	"claude-code":      claudeTools,
	"claude-agent-acp": claudeTools,
	"codex":            codexTools,
	"codex-acp":        codexTools,
	"opencode": {
		Read:  call("read", func(in object, s []string) { in["filePath"] = s[0] }).one,
		Shell: call("bash", func(in object, s []string) { in["command"], in["description"] = s[0], "Run it" }).one,
		Write: call("write", func(in object, s []string) { in["filePath"], in["content"] = s[0], s[1] }).two,
		Edit: call("edit", func(in object, s []string) {
			in["filePath"], in["oldString"], in["newString"] = s[0], s[1], s[2]
		}).three,
		Plan: call("todowrite", func(in object, s []string) {
			in["todos"] = []object{
				{"id": "1", "content": s[0], "status": "in_progress", "priority": "high"},
				{"id": "2", "content": s[1], "status": "pending", "priority": "low"},
			}
		}).two,
	},
	"gemini": {
		Read:  call("read_file", func(in object, s []string) { in["file_path"] = s[0] }).one,
		Shell: call("run_shell_command", func(in object, s []string) { in["command"], in["description"] = s[0], "Run it" }).one,
		Write: call("write_file", func(in object, s []string) { in["file_path"], in["content"] = s[0], s[1] }).two,
		Edit: call("replace", func(in object, s []string) {
			in["file_path"], in["old_string"], in["new_string"], in["instruction"] = s[0], s[1], s[2], "Replace it"
		}).three,
		Plan: call("write_todos", func(in object, s []string) {
			in["todos"] = []object{{"description": s[0], "status": "in_progress"}, {"description": s[1], "status": "pending"}}
		}).two,
		OmitsOutput: true, // Gemini CLI 0.61.0
	},
	"copilot": {
		Read:  call("view", func(in object, s []string) { in["path"] = s[0] }).one,
		Shell: call("bash", func(in object, s []string) { in["command"], in["description"], in["mode"] = s[0], "Run it", "sync" }).one,
		Write: call("create", func(in object, s []string) { in["path"], in["file_text"] = s[0], s[1] }).two,
		Edit: call("edit", func(in object, s []string) {
			in["path"], in["old_str"], in["new_str"] = s[0], s[1], s[2]
		}).three,
		Plan: call("update_todo", func(in object, s []string) { in["todos"] = "- [ ] " + s[0] + "\n- [ ] " + s[1] }).two,
	},
	"qwen": {
		Read: call("read_file", func(in object, s []string) { in["file_path"] = s[0] }).one,
		Shell: call("run_shell_command", func(in object, s []string) {
			in["command"], in["description"], in["is_background"] = s[0], "Run it", false
		}).one,
		Write: call("write_file", func(in object, s []string) { in["file_path"], in["content"] = s[0], s[1] }).two,
		Edit: call("edit", func(in object, s []string) {
			in["file_path"], in["old_string"], in["new_string"] = s[0], s[1], s[2]
		}).three,
		Plan: call("todo_write", func(in object, s []string) {
			in["todos"] = []object{{"id": "1", "content": s[0], "status": "in_progress"}, {"id": "2", "content": s[1], "status": "pending"}}
		}).two,
	},
}

var claudeTools = Toolset{
	Read:  call("Read", func(in object, s []string) { in["file_path"] = s[0] }).one,
	Shell: call("Bash", func(in object, s []string) { in["command"], in["description"] = s[0], "Run it" }).one,
	Write: call("Write", func(in object, s []string) { in["file_path"], in["content"] = s[0], s[1] }).two,
	Edit: call("Edit", func(in object, s []string) {
		in["file_path"], in["old_string"], in["new_string"] = s[0], s[1], s[2]
	}).three,
	Plan: call("TodoWrite", func(in object, s []string) {
		in["todos"] = []object{
			{"content": s[0], "status": "in_progress", "activeForm": s[0]}, {"content": s[1], "status": "pending", "activeForm": s[1]},
		}
	}).two,
}

var codexTools = Toolset{
	Shell: call("exec_command", func(in object, s []string) { in["cmd"] = s[0] }).one,
	Ask: call("exec_command", func(in object, s []string) {
		in["cmd"], in["sandbox_permissions"], in["justification"] = s[0], "require_escalated", "May I?"
	}).one,
	Write: func(path, content string) fakemodel.Block {
		lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
		return patch("Add File: "+path, "+"+strings.Join(lines, "\n+"))
	},
	Edit: func(path, old, new string) fakemodel.Block {
		return patch("Update File: "+path, "@@\n-"+old+"\n+"+new)
	},
	Plan: call("update_plan", func(in object, s []string) {
		in["plan"] = []object{{"step": s[0], "status": "in_progress"}, {"step": s[1], "status": "pending"}}
	}).two,
}

func patch(header, body string) fakemodel.Block {
	return fakemodel.Call("apply_patch", "*** Begin Patch\n*** "+header+"\n"+body+"\n*** End Patch\n")
}

// filler returns a tool call with the given texts in its input.
type filler func(texts ...string) fakemodel.Block

func call(tool string, fill func(in object, texts []string)) filler {
	return func(texts ...string) fakemodel.Block {
		in := object{}
		fill(in, texts)
		return fakemodel.Call(tool, in)
	}
}

func (f filler) one(a string) fakemodel.Block         { return f(a) }
func (f filler) two(a, b string) fakemodel.Block      { return f(a, b) }
func (f filler) three(a, b, c string) fakemodel.Block { return f(a, b, c) }
