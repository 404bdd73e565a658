package turnview

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// A Call is a tool call as far as it is known.
type Call struct {
	Name      string
	Title     string
	Kind      event.ToolKind
	Arguments json.RawMessage
	Locations []event.Location
	Changes   []event.Change
}

// maxObject is the maximum length of the object of a call, in characters.
const maxObject = 400

// Describe returns what a call does, as a verb and its object, each in one line
// that is safe to print. Paths within dir are relative to it. The page
// describes calls in the same way.
func (c Call) Describe(dir string) (verb, object string) {
	verb, object = c.describe(dir)
	return oneLine(verb, 80), oneLine(object, maxObject)
}

func (c Call) describe(dir string) (verb, object string) {
	args := argumentsOf(c.Arguments)
	path := args.pick("file_path", "path", "notebook_path", "filePath", "filename")
	if path == "" && len(c.Locations) > 0 {
		path = c.Locations[0].Path
	}
	path = shortPath(path, dir)
	switch c.Kind {
	case event.KindExecute:
		return "Run", inShell(first(args.pick("command", "cmd", "script"), args.words("command"), args.words("cmd"), c.title()))
	case event.KindRead:
		return "Read", first(path, c.title())
	case event.KindEdit:
		return c.edit(path, dir)
	case event.KindDelete:
		return "Delete", first(path, c.title())
	case event.KindMove:
		return "Move", first(path, c.title())
	case event.KindSearch:
		return "Search", first(args.pick("pattern", "query", "q", "glob"), c.title())
	case event.KindFetch:
		if url := args.pick("url", "uri"); url != "" {
			return "Fetch", url
		}
		if query := args.pick("query"); query != "" {
			return "Search the web", query
		}
		return "Fetch", c.title()
	case event.KindDelegate:
		return "Subagent", first(args.pick("description"), c.Title, args.pick("prompt"), c.Name)
	case event.KindThink:
		if todoTools[c.Name] {
			return "Updated tasks", ""
		}
		return "Think", first(c.Title, args.pick("thought"), c.Name)
	case event.KindSwitchMode:
		if planTools[c.Name] {
			return "Proposed a plan", ""
		}
		return "Switch mode", first(c.Title, args.pick("mode", "plan"))
	}
	return c.other(args, path)
}

// Tools of agents that have a description of their own.
var (
	todoTools = map[string]bool{"TodoWrite": true, "todo_write": true, "todowrite": true, "update_plan": true}
	planTools = map[string]bool{"ExitPlanMode": true, "exit_plan_mode": true}
)

func (c Call) edit(path, dir string) (verb, object string) {
	verb = "Edit"
	if len(c.Changes) > 0 && c.Changes[0].Kind == event.ChangeCreate {
		verb = "Create"
	}
	files := make(map[string]bool)
	for _, ch := range c.Changes {
		files[ch.Path] = true
	}
	switch {
	case len(files) > 1:
		return verb, plural(len(files), "file")
	case path == "" && len(c.Changes) > 0:
		path = shortPath(c.Changes[0].Path, dir)
	}
	return verb, first(path, c.title())
}

// other describes a call of no known kind, such as of a tool of an MCP server.
func (c Call) other(args arguments, path string) (verb, object string) {
	command := first(args.pick("command"), args.words("command"))
	if m := mcpTool.FindStringSubmatch(c.Name); m != nil {
		return m[2], first(command, path, args.pick("query", "url", "name", "description"), "of "+m[1])
	}
	called := c.Title
	if called == c.Name {
		called = ""
	}
	verb = first(c.Name, "Tool")
	return verb, first(called, command, path, args.pick("query", "url", "name", "description"))
}

var mcpTool = regexp.MustCompile(`^mcp__(.+?)__(.+)$`)

// first returns the first text that is not empty.
func first(texts ...string) string {
	if i := slices.IndexFunc(texts, func(s string) bool { return s != "" }); i >= 0 {
		return texts[i]
	}
	return ""
}

// arguments are the members of the arguments of a call.
type arguments map[string]any

func argumentsOf(data json.RawMessage) (a arguments) {
	_ = json.Unmarshal(data, &a) // arguments that are no object have no members
	return a
}

// pick returns the first of these members that is a text and not empty.
func (a arguments) pick(names ...string) string {
	for _, name := range names {
		if s, ok := a[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

var bare = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// words returns a command that is given as a list of words.
func (a arguments) words(name string) string {
	list, ok := a[name].([]any)
	if !ok {
		return ""
	}
	var out []string
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return ""
		}
		if !bare.MatchString(s) {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

var shells = regexp.MustCompile("^(?:\\S*/)?(?:ba|z|da)?sh -l?c (?:'([^']*)'|\"([^\"\\\\$`]*)\")$")

// inShell returns the command inside a call of a shell, such as bash -lc;
// otherwise the command unchanged.
func inShell(command string) string {
	if m := shells.FindStringSubmatch(command); m != nil {
		return first(m[1], m[2], command)
	}
	return command
}

var (
	quoted = regexp.MustCompile("(?s)^`+(.+?)`+$")
	verbed = regexp.MustCompile(`(?i)^(run|read|edit|write|create|delete|move|search|fetch)\b:?\s+(\S)`)
)

// verbs are the verbs with which the titles of calls of a kind begin.
var verbs = map[event.ToolKind][]string{
	event.KindExecute: {"run"}, event.KindRead: {"read"}, event.KindEdit: {"edit", "write", "create"},
	event.KindDelete: {"delete"}, event.KindMove: {"move"}, event.KindSearch: {"search"}, event.KindFetch: {"fetch"},
}

// title returns the agent's title for the call, without a leading verb that the
// row shows already, and without the backquotes that some agents put around
// commands.
func (c Call) title() string {
	title := first(c.Title, c.Name)
	if m := quoted.FindStringSubmatch(title); m != nil {
		title = m[1]
	}
	if m := verbed.FindStringSubmatchIndex(title); m != nil && slices.Contains(verbs[c.Kind], strings.ToLower(title[m[2]:m[3]])) {
		title = title[m[4]:]
	}
	return title
}

// icon returns one character for a kind of tool.
func icon(kind event.ToolKind) string {
	switch kind {
	case event.KindExecute:
		return "$"
	case event.KindRead:
		return "≡"
	case event.KindEdit, event.KindMove:
		return "±"
	case event.KindDelete:
		return "−"
	case event.KindSearch:
		return "/"
	case event.KindFetch:
		return "↓"
	case event.KindDelegate:
		return "◆"
	}
	return "•"
}

// foldable reports whether calls of a kind share one row.
func foldable(kind event.ToolKind) bool {
	return kind == event.KindRead || kind == event.KindSearch
}

// DescribeApproval returns in one line what an approval is about. It is made
// from the call that would run, and not from the agent's description of it.
func DescribeApproval(a event.Approval, dir string) string {
	if a.Kind != event.ApprovalTool {
		return oneLine(a.Title, maxObject)
	}
	if at := Connection(a); at != "" {
		return oneLine("Reach "+at, maxObject)
	}
	c := Call{Name: a.ToolName, Arguments: a.Arguments, Changes: a.Changes}
	for _, ch := range a.Changes {
		c.Locations = append(c.Locations, event.Location{Path: ch.Path})
	}
	verb, object := c.Describe(dir)
	return strings.TrimSpace(verb + " " + object)
}

// Connection returns the host and the port that programs in a sandbox reach for,
// if the approval is about that; otherwise "".
func Connection(a event.Approval) string {
	var to struct {
		Host string
		Port int
	}
	if a.Kind != event.ApprovalTool || a.ToolName != event.ToolConnect || json.Unmarshal(a.Arguments, &to) != nil || to.Host == "" || to.Port == 0 {
		return ""
	}
	return net.JoinHostPort(to.Host, strconv.Itoa(to.Port))
}

// describeFold returns what several reads and searches did.
func describeFold(calls []*call, dir string) (what, names string) {
	files := make(map[string]bool)
	var objects []string
	searches := 0
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b *call) int { return a.started.Compare(b.started) })
	for _, c := range calls {
		_, object := c.Describe(dir)
		if c.Kind != event.KindRead {
			searches++
		} else if !files[object] {
			files[object] = true
			objects = append(objects, object)
		}
	}
	if len(files) > 0 {
		what = "Read " + plural(len(files), "file")
	}
	if searches > 0 {
		verb := "Searched"
		if what != "" {
			what, verb = what+", ", "searched"
		}
		switch searches {
		case 1:
			what += verb + " once"
		case 2:
			what += verb + " twice"
		default:
			what += fmt.Sprintf("%s %d times", verb, searches)
		}
	}
	return what, strings.Join(objects, ", ")
}
