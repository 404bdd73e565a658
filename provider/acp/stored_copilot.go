package acp

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A copilotEvent is a line of a file of Copilot.
type copilotEvent struct {
	Type string    `json:"type"`
	At   time.Time `json:"timestamp"`
	Data struct {
		Content string `json:"content"` // user.message, assistant.message

		// session.error, session.info
		Message string `json:"message"`

		// tool.execution_start, tool.execution_complete
		CallID    string          `json:"toolCallId"`
		Tool      string          `json:"toolName"`
		Title     string          `json:"toolTitle"`
		Arguments json.RawMessage `json:"arguments"`
		Success   bool            `json:"success"`
		Result    json.RawMessage `json:"result"`
		Error     json.RawMessage `json:"error"`
	} `json:"data"`
}

// copilotUpdates returns the updates for a file of Copilot, which are those of
// the agent's own replay (1.0.102).
func copilotUpdates(lines [][]byte) (out []storedUpdate) {
	calls := make(map[string]copilotCall) // by id
	for _, line := range lines {
		e := translate.DecodeLenient[copilotEvent](line)
		add := func(kind string, fields map[string]any) {
			fields["sessionUpdate"] = kind
			out = append(out, storedUpdate{at: e.At, update: fields})
		}
		switch e.Type {
		case "user.message":
			add("user_message_chunk", map[string]any{"content": textBlock(e.Data.Content)})
		case "assistant.message":
			add("agent_message_chunk", map[string]any{"content": textBlock(e.Data.Content)})
		case "assistant.turn_end": // of a model call, which ends its message
			out = append(out, storedUpdate{at: e.At, whole: true})
		case "session.error":
			add("agent_message_chunk", map[string]any{"content": textBlock("Error: " + e.Data.Message)})
		case "session.info":
			add("agent_message_chunk", map[string]any{"content": textBlock("Info: " + e.Data.Message)})
		case "tool.execution_start":
			if e.Data.Tool == copilotTodos {
				continue
			}
			fields, c := e.call()
			calls[e.Data.CallID] = c
			add("tool_call", fields)
		case "tool.execution_complete":
			if c, known := calls[e.Data.CallID]; known {
				add("tool_call_update", e.result(c))
			}
		}
	}
	return out
}

// copilotTodos is the tool whose calls the agent does not replay.
const copilotTodos = "update_todo"

// A copilotCall is what the end of a call needs of its start.
type copilotCall struct {
	diff   any  // the change of a file that the call makes, or nil
	silent bool // the replay shows no result
}

// call returns the fields of the update for the start of a call.
func (e copilotEvent) call() (fields map[string]any, c copilotCall) {
	in := translate.DecodeLenient[struct {
		Description string  `json:"description"`
		Path        string  `json:"path"`
		Pattern     string  `json:"pattern"`
		Text        *string `json:"file_text"`
		Old         *string `json:"old_str"`
		New         *string `json:"new_str"`
	}](e.Data.Arguments)
	fields = map[string]any{"toolCallId": e.Data.CallID, "status": "pending"}
	if translate.IsObject(e.Data.Arguments) {
		fields["rawInput"] = e.Data.Arguments
	}
	kind, title := event.KindOther, cmp.Or(e.Data.Title, e.Data.Tool)
	switch e.Data.Tool {
	case "bash":
		kind, title = event.KindExecute, cmp.Or(in.Description, title)
	case "view":
		kind, title, c.silent = event.KindRead, "Viewing "+shortPath(in.Path), true
	case "grep":
		kind, title = event.KindRead, "Searching for '"+in.Pattern+"'"
	case "glob":
		kind, title = event.KindRead, "Finding files matching "+in.Pattern
	case "create":
		kind, title = event.KindEdit, "Creating "+shortPath(in.Path)
		c.diff = change(in.Path, new(string), in.Text)
	case "edit":
		kind, title = event.KindEdit, "Editing "+shortPath(in.Path)
		c.diff = change(in.Path, in.Old, in.New)
	}
	fields["kind"], fields["title"] = kind, title
	if in.Path != "" {
		fields["locations"] = storedPaths(in.Path)
	}
	if c.diff != nil {
		fields["content"] = []any{c.diff}
	}
	return fields, c
}

// shortPath returns a path as the agent shows it in titles.
func shortPath(path string) string {
	const most, dots = 50, "..."
	if r := []rune(path); len(r) > most {
		return dots + string(r[len(r)-most+len(dots):])
	}
	return path
}

// change returns the content of a call that changes a file, or nil.
func change(path string, from, to *string) any {
	if path == "" || from == nil || to == nil {
		return nil
	}
	return map[string]any{"type": "diff", "path": path, "oldText": *from, "newText": *to}
}

// result returns the fields of the update for the end of a call.
func (e copilotEvent) result(c copilotCall) map[string]any {
	fields := map[string]any{"toolCallId": e.Data.CallID, "status": "failed", "rawOutput": e.Data.Error}
	if !e.Data.Success {
		return fields
	}
	fields["status"], fields["rawOutput"] = "completed", e.Data.Result
	if c.diff != nil {
		fields["content"] = []any{c.diff}
	} else if !c.silent {
		content := translate.DecodeLenient[struct {
			Content string `json:"content"`
		}](e.Data.Result).Content
		fields["content"] = []any{contentOf(textBlock(content))}
	}
	return fields
}
