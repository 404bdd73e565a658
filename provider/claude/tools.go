package claude

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// toolKind groups Claude Code's tools.
func toolKind(name string) event.ToolKind {
	switch name {
	case "Read", "NotebookRead", "ReadMcpResourceTool":
		return event.KindRead
	case "Edit", "MultiEdit", "Write", "NotebookEdit":
		return event.KindEdit
	case "Glob", "Grep", "LS", "ToolSearch", "ListMcpResourcesTool":
		return event.KindSearch
	case "Bash", "BashOutput", "KillShell", "KillBash", "Monitor", "TaskOutput", "TaskStop":
		return event.KindExecute
	case "WebFetch", "WebSearch":
		return event.KindFetch
	case "TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet":
		return event.KindThink
	case "EnterPlanMode", "ExitPlanMode":
		return event.KindSwitchMode
	case "Agent", "Task":
		return event.KindDelegate
	}
	return event.KindOther
}

// toolInput is what tools' arguments have in common.
type toolInput struct {
	FilePath     string `json:"file_path"`
	NotebookPath string `json:"notebook_path"`
	Path         string `json:"path"`
	Command      string `json:"command"`
	Description  string `json:"description"`
	Pattern      string `json:"pattern"`
	Query        string `json:"query"`
	URL          string `json:"url"`
	Subject      string `json:"subject"`
	Offset       int    `json:"offset"`
}

// decodeLoose decodes what fits: the model makes these objects up.
func decodeLoose[T any](data []byte) (v T) {
	_ = json.Unmarshal(data, &v) // what does not fit stays zero
	return v
}

// toolTitle says in one line what a call is about.
func toolTitle(name string, input json.RawMessage) string {
	in := decodeLoose[toolInput](input)
	about := ""
	switch toolKind(name) {
	case event.KindRead, event.KindEdit:
		if p := in.FilePath + in.NotebookPath; p != "" {
			about = filepath.Base(p)
		}
	case event.KindSearch:
		about = in.Pattern + in.Query
	case event.KindFetch:
		about = in.URL + in.Query
	case event.KindThink:
		about = in.Subject
	case event.KindExecute:
		about = in.Command
	default:
		about = in.Description
	}
	if about == "" {
		return oneLine(name, 200)
	}
	return oneLine(name+": "+about, 200)
}

func toolLocations(input json.RawMessage) []event.Location {
	in := decodeLoose[toolInput](input)
	path := in.FilePath
	if path == "" {
		path = in.NotebookPath
	}
	if path == "" || len(path) > 4096 {
		return nil
	}
	return []event.Location{{Path: path, Line: in.Offset}}
}

// toolOutput makes the output of a call from its result block and, where there
// is one, the structured record beside it.
func toolOutput(c call, b block, record json.RawMessage) event.FunctionCallOutput {
	text := resultText(b.Content)
	out := event.FunctionCallOutput{
		CallID: b.ToolUseID, IsError: b.IsError,
		Changes: changes(c, record, b.IsError), ExitCode: exitCode(c, text, record, b.IsError), Detail: detail(c, record),
	}
	var short bool
	if out.Output, short = cut(text, event.MaxOutput); short {
		out.Truncated, out.TotalBytes = true, int64(len(text))
	}
	return out
}

// resultText joins the blocks of a result, a line each; what is not text is named.
func resultText(c content) string {
	parts := make([]string, 0, len(c))
	for _, b := range c {
		switch b.Type {
		case "text":
			text := strings.TrimPrefix(b.Text, "<tool_use_error>")
			parts = append(parts, strings.TrimSuffix(text, "</tool_use_error>"))
		case "":
		default:
			parts = append(parts, "["+oneLine(b.Type, 40)+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// exitCode is that of a shell command. A failure is told in words only.
func exitCode(c call, text string, record json.RawMessage, failed bool) *int {
	if c.name != "Bash" {
		return nil
	}
	code := 0
	if failed {
		rest, ok := strings.CutPrefix(text, "Exit code ")
		if !ok {
			return nil // never ran
		}
		digits, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil
		}
		code = n
	} else if r := decodeLoose[struct {
		Stdout         *string
		Interrupted    bool
		BackgroundTask string `json:"backgroundTaskId"`
	}](record); r.Stdout == nil || r.Interrupted || r.BackgroundTask != "" {
		return nil
	}
	return &code
}

// exitPlan is what the agent makes of the arguments with which a plan is handed in.
type exitPlan struct {
	Plan         string `json:"plan"`
	PlanFilePath string `json:"planFilePath"`
}

// skillDir is how the harness tells the model where a skill is.
const skillDir = "Base directory for this skill: "

// skill takes a text of the harness that may name a skill.
func (t *translator) skill(text string) {
	if rest, ok := strings.CutPrefix(text, skillDir); ok {
		dir, _, _ := strings.Cut(rest, "\n")
		t.names("skill", filepath.Join(strings.TrimSpace(dir), "SKILL.md"))
	}
}

// maxFiles bounds the files of the agent that are told of.
const maxFiles = 1000

// names tells of a file of the agent's own, once.
func (t *translator) names(kind, path string) {
	f := event.AgentFile{Path: path, Kind: kind}
	if !filepath.IsAbs(path) || len(path) > 4096 || t.files[f] || len(t.files) >= maxFiles {
		return
	}
	t.files[f] = true
	t.emit(event.SessionUpdated{Files: []event.AgentFile{f}})
}

// taskID is the id of the task in the background that a call began, from its record.
func taskID(record json.RawMessage) string {
	return decodeLoose[struct {
		BackgroundTask string `json:"backgroundTaskId"`
	}](record).BackgroundTask
}

// isAsync reports whether the record of a call says that its subagent goes on
// in the background.
func isAsync(record json.RawMessage) bool {
	return decodeLoose[struct{ IsAsync bool }](record).IsAsync
}

// maxDetail bounds the record that is passed on, in bytes.
const maxDetail = 16 << 10

// detail passes on the record of tools whose output does not say it all. Those
// of file and shell tools repeat it.
func detail(c call, record json.RawMessage) json.RawMessage {
	switch toolKind(c.name) {
	case event.KindRead, event.KindEdit, event.KindExecute, event.KindSearch:
		return nil
	}
	if len(record) == 0 || record[0] != '{' || len(record) > maxDetail {
		return nil
	}
	return record
}

// attachments lists what a prompt carried beside its text.
func attachments(c content) []event.Attachment {
	var out []event.Attachment
	for _, b := range c {
		if b.Source == nil || (b.Type != "image" && b.Type != "document") {
			continue
		}
		size := int64(len(b.Source.Data))
		if b.Source.Type == "base64" {
			size = size/4*3 - int64(strings.Count(b.Source.Data[max(0, len(b.Source.Data)-2):], "="))
		}
		out = append(out, event.Attachment{Name: oneLine(b.Title, 200), MediaType: oneLine(b.Source.MediaType, 100), Size: size})
	}
	return out
}
