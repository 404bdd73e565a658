package codex

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxArguments bounds the arguments that a call shows, in bytes.
const maxArguments = 256 << 10

// callStarted emits the start of a tool call, and completes the call if its
// arguments are known.
func (is *itemList) callStarted(c *piece, it item) {
	f, ok := toolCall(it)
	if !ok {
		is.out.SkipUnknown("item/" + it.Type)
		return
	}
	if !c.started {
		c.started, c.call = true, true
		c.name, c.title = f.Name, f.Title
		switch it.Type {
		case "commandExecution":
			c.args = f.Arguments
		case "fileChange":
			c.args, c.changes = f.Arguments, changes(it.Changes)
		}
		is.checkAsked(it.ID, f.Name, f.Arguments)
		c.output = translate.NewOutput(c.id, c.native, c.name, is.parent)
		c.output.Start.Native = c.nativeID()
		is.start(c, event.ItemStart{ItemID: c.id, ItemType: event.TypeFunctionCall, CallID: f.CallID, Name: f.Name})
	}
	late := it.Type == "webSearch" || it.Type == "imageGeneration" // their arguments arrive with their end
	if !c.called && (!late || c.done) {
		c.called = true
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: f})
	}
}

// toBackground ends a call that continues in the background. text is its output
// so far.
func (is *itemList) toBackground(c *piece, text string) {
	c.done = true
	c.output.Done(is.out, event.FunctionCallOutput{CallID: c.native, Output: text, Detail: []byte(`{"status":"inProgress"}`)})
	is.out.Notice(event.LevelInfo, "TASK_GOES_ON", "It continues in the background: "+oneLine(c.title, 300))
}

// toolCall converts a native item to a tool call. It reports false if the item
// is not a call or has an unknown type.
func toolCall(it item) (event.FunctionCall, bool) {
	f := event.FunctionCall{CallID: it.ID, Kind: event.KindOther}
	switch it.Type {
	case "commandExecution":
		f.Name, f.Kind, f.Title = "shell", event.KindExecute, oneLine(script(it.Command), 200)
		f.Arguments = translate.Object(map[string]string{"command": it.Command, "cwd": it.CWD})
		for _, a := range it.Actions[:min(len(it.Actions), 20)] {
			if a.Type == "read" && filepath.IsAbs(a.Path) {
				f.Locations = append(f.Locations, event.Location{Path: a.Path})
			}
		}
	case "fileChange":
		f.Name, f.Kind, f.Title = "apply_patch", patchKind(it.Changes), patchTitle(it.Changes)
		f.Arguments = patchArguments(it.Changes)
		for _, c := range it.Changes[:min(len(it.Changes), 100)] {
			f.Locations = append(f.Locations, event.Location{Path: c.Path})
		}
	case "mcpToolCall":
		f.Name, f.Title = "mcp__"+it.Server+"__"+it.Tool, oneLine(it.Server+": "+it.Tool, 200)
		f.Arguments = translate.Arguments(it.Arguments)
		if it.ReadOnly {
			f.Kind = event.KindRead
		}
	case "dynamicToolCall":
		f.Name, f.Title, f.Arguments = it.Tool, oneLine(it.Tool, 200), translate.Arguments(it.Arguments)
	case "webSearch":
		f.Name, f.Kind, f.Title = "web_search", event.KindFetch, oneLine("Search: "+it.Query, 200)
		f.Arguments = translate.Object(map[string]any{"query": it.Query, "action": it.Action})
	case "imageView":
		f.Name, f.Kind, f.Title = "view_image", event.KindRead, oneLine("View "+filepath.Base(it.Path), 200)
		f.Arguments = translate.Object(map[string]string{"path": it.Path})
		f.Locations = []event.Location{{Path: it.Path}}
	case "imageGeneration":
		f.Name, f.Title, f.Arguments = "image_generation", "Make an image", translate.Object(map[string]string{"prompt": it.Prompt})
	case "sleep":
		f.Name, f.Kind, f.Title, f.Arguments = "sleep", event.KindThink, "Wait", translate.Object(map[string]int64{"durationMs": it.Duration})
	case "collabAgentToolCall":
		f.Name, f.Kind, f.Title = collabName(it.Tool), event.KindDelegate, oneLine(it.Tool+" "+it.Prompt, 200)
		f.Arguments = translate.Object(map[string]any{"prompt": clip(it.Prompt, maxArguments), "model": it.Model, "agents": it.Receivers})
	case "subAgentActivity":
		f.Name, f.Kind, f.Title = "spawn_agent", event.KindDelegate, oneLine("Agent "+it.AgentPath, 200)
		f.Arguments = translate.Object(map[string]string{"agent": it.AgentPath, "model": it.Model})
	default:
		return f, false
	}
	if f.Name = clip(f.Name, 300); f.Name == "" {
		f.Name = it.Type
	}
	return f, it.ID != ""
}

// collabName returns the name under which the model knows a tool for subagents.
func collabName(tool string) string {
	switch tool {
	case "spawnAgent":
		return "spawn_agent"
	case "sendInput":
		return "send_message"
	case "wait":
		return "wait_agent"
	case "closeAgent":
		return "close_agent"
	}
	return clip(tool, 100)
}

// toolOutput returns the output of a finished call.
func toolOutput(c *piece, it item) event.FunctionCallOutput {
	out := event.FunctionCallOutput{CallID: c.native, IsError: it.Status == "failed" || it.Status == "declined"}
	text := ""
	switch it.Type {
	case "commandExecution":
		text, out.ExitCode = it.Output, it.Exit
		out.IsError = out.IsError || it.Exit != nil && *it.Exit != 0
	case "fileChange":
		text = patchText(it.Changes)
		if !out.IsError {
			out.Changes = changes(it.Changes)
		}
	case "mcpToolCall":
		if it.Result != nil {
			text = joined(it.Result.Content)
			if n := len(it.Result.Structured); n > 0 && n <= translate.MaxDetail && string(it.Result.Structured) != "null" {
				out.Detail = it.Result.Structured
			}
		}
		if it.Error != nil {
			text, out.IsError = it.Error.Message, true
		}
	case "dynamicToolCall":
		text = joined(it.Parts)
	case "imageGeneration":
		text = it.Saved
	case "collabAgentToolCall":
		text = agentsText(it)
	}
	if it.Status == "declined" {
		text = "Not done: it was declined."
	}
	translate.SetOutput(&out, text, int64(len(text)))
	return out
}

// joined returns the text of a tool's output, one line for each part. A part
// that is not text is represented by its type.
func joined(parts []outputPart) string {
	var lines []string
	for _, p := range parts {
		switch {
		case p.Text != "" || p.Type == "text" || p.Type == "inputText":
			lines = append(lines, p.Text)
		default:
			lines = append(lines, "["+oneLine(p.Type, 40)+"]")
		}
	}
	return strings.Join(lines, "\n")
}

func agentsText(it item) string {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(it.Agents)) {
		a := it.Agents[id]
		lines = append(lines, strings.TrimSuffix(a.Status+": "+a.Message, ": "))
	}
	return strings.Join(lines, "\n")
}

// script returns the command without the shell invocation that Codex adds to
// it.
func script(command string) string {
	shell, rest, ok := strings.Cut(command, " ")
	if !ok || !strings.HasSuffix(shell, "sh") {
		return command
	}
	flag, quoted, ok := strings.Cut(rest, " ")
	if !ok || flag != "-lc" && flag != "-c" {
		return command
	}
	if inner, ok := strings.CutPrefix(quoted, "'"); ok && strings.HasSuffix(inner, "'") {
		return strings.ReplaceAll(strings.TrimSuffix(inner, "'"), `'\''`, "'")
	}
	if inner, ok := strings.CutPrefix(quoted, `"`); ok && strings.HasSuffix(inner, `"`) {
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(strings.TrimSuffix(inner, `"`))
	}
	return quoted
}
