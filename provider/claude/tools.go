package claude

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// call is a tool call.
type call struct {
	item     string
	id       string
	name     string
	input    json.RawMessage
	answered bool
}

// finishCall completes the item of a call with its final arguments.
func (tn *turn) finishCall(c *call) {
	tn.calls[c.id] = c
	tn.emit(event.ItemDone{ItemID: c.item, FinalItem: event.FunctionCall{
		Name: c.name, CallID: c.id, Arguments: c.input,
		Kind: toolKind(c.name), Title: toolTitle(c.name, c.input), Locations: toolLocations(c.input),
	}})
	if c.name == "ExitPlanMode" {
		tn.session.reportFile(tn.emitter(), "plan", translate.DecodeLenient[exitPlan](c.input).PlanFilePath)
	}
}

// output emits the result of a call. It returns the call and its output; the
// call is nil if it already had an output.
func (tn *turn) output(f frame, b block) (*call, event.FunctionCallOutput) {
	c := tn.calls[b.ToolUseID]
	if c == nil { // the call was in an earlier turn or was never printed
		c = &call{item: tn.id + ":" + translate.Key(providerID, b.ToolUseID), id: b.ToolUseID}
		tn.calls[b.ToolUseID] = c
	}
	if c.answered {
		return nil, event.FunctionCallOutput{}
	}
	c.answered = true
	out := toolOutput(c, b, f.ToolUseResult)
	item := translate.NewOutput(c.item, c.id, c.name, f.ParentToolUseID)
	item.Done(tn.emitter(), out)
	if c.name == "ExitPlanMode" && !b.IsError {
		tn.session.reportFile(tn.emitter(), "plan", planFile(out.Output, f.ToolUseResult))
	}
	return c, out
}

// savedPlan matches the line with the plan's file in the output of
// ExitPlanMode.
var savedPlan = regexp.MustCompile(`(?m)^Your plan has been saved to: (.+)$`)

// planFile returns the file of an approved plan; "" if there is none. It reads
// the output because a subagent's call has no record.
func planFile(output string, record json.RawMessage) string {
	if path := translate.DecodeLenient[struct{ FilePath string }](record).FilePath; path != "" {
		return path
	}
	if m := savedPlan.FindStringSubmatch(output); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

// unnamedCall returns the id of the call for a result that does not name its
// call. If exactly one call has no output, it is that call. Otherwise the id is
// derived from the frame.
func (tn *turn) unnamedCall(f frame, index int) string {
	var open []string
	for id, c := range tn.calls {
		if !c.answered {
			open = append(open, id)
		}
	}
	if len(open) == 1 {
		return open[0]
	}
	return derive(tn.id + " " + f.UUID + " result " + strconv.Itoa(index))
}

// toolKind returns the kind of one of Claude Code's tools.
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

// toolInput has those arguments of all tools that name the object of a call.
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

// toolTitle returns one line about a call: the tool's name and the object of
// the call.
func toolTitle(name string, input json.RawMessage) string {
	in := translate.DecodeLenient[toolInput](input)
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
		return text.OneLine(name, 200)
	}
	return text.OneLine(name+": "+about, 200)
}

// toolLocations returns the file that the arguments of a call name.
func toolLocations(input json.RawMessage) []event.Location {
	in := translate.DecodeLenient[toolInput](input)
	path := in.FilePath
	if path == "" {
		path = in.NotebookPath
	}
	if path == "" || len(path) > 4096 {
		return nil
	}
	return []event.Location{{Path: path, Line: in.Offset}}
}

// toolOutput returns the output of a call from its result block and the
// structured record. A subagent's call has no record.
func toolOutput(c *call, b block, record json.RawMessage) event.FunctionCallOutput {
	output := resultText(b.Content)
	out := event.FunctionCallOutput{
		CallID: b.ToolUseID, IsError: b.IsError,
		Changes: changes(c, record, b.IsError), ExitCode: exitCode(c, output, record, b.IsError), Detail: detail(c, record),
	}
	translate.SetOutput(&out, output, int64(len(output)))
	return out
}

// resultText joins the blocks of a result, with line ends between them. A block
// that is not text is represented by its type in brackets.
func resultText(c content) string {
	parts := make([]string, 0, len(c))
	for _, b := range c {
		switch b.Type {
		case "text":
			output := strings.TrimPrefix(b.Text, "<tool_use_error>")
			parts = append(parts, strings.TrimSuffix(output, "</tool_use_error>"))
		case "":
		default:
			parts = append(parts, "["+text.OneLine(b.Type, 40)+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// exitCode returns the exit code of a shell command; nil if it is not known. If
// the command failed, only the text has the code.
func exitCode(c *call, output string, record json.RawMessage, failed bool) *int {
	if c.name != "Bash" {
		return nil
	}
	code := 0
	if failed {
		rest, ok := strings.CutPrefix(output, "Exit code ")
		if !ok {
			return nil // the command never ran
		}
		digits, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil
		}
		code = n
	} else if r := translate.DecodeLenient[struct {
		Stdout         *string
		Interrupted    bool
		BackgroundTask string `json:"backgroundTaskId"`
	}](record); r.Stdout == nil || r.Interrupted || r.BackgroundTask != "" {
		return nil
	}
	return &code
}

// exitPlan has the arguments of ExitPlanMode. The agent adds the file to the
// model's arguments.
type exitPlan struct {
	Plan         string `json:"plan"`
	PlanFilePath string `json:"planFilePath"`
}

// skillFile returns the file that describes the skill in a folder.
func skillFile(dir string) string { return filepath.Join(strings.TrimSpace(dir), "SKILL.md") }

// detail returns the record of a call if it has more information than the
// output. The records of file, search and shell tools only repeat the output.
func detail(c *call, record json.RawMessage) json.RawMessage {
	switch toolKind(c.name) {
	case event.KindRead, event.KindEdit, event.KindExecute, event.KindSearch:
		return nil
	}
	if len(record) == 0 || record[0] != '{' || len(record) > translate.MaxDetail {
		return nil
	}
	return record
}
