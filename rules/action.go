package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/store"
)

// An action is what a call of a tool would do, as far as its arguments say.
type action struct {
	kind    store.RuleKind
	tool    string
	command string   // for a shell
	dir     string   // where the command runs, and relative paths begin
	paths   []string // files that are changed or read
	url     string

	// unclear is why not every argument is understood, for people; "" if all
	// are. Others may ask for more than the rest shows, such as to run a
	// command outside of the agent's sandbox: no rule allows that.
	unclear string

	// hidden says that what is shown is not what would run: a secret was taken
	// out, and whatever else stood in its place.
	hidden bool
}

// plain reports whether every argument is understood.
func (a *action) plain() bool { return a.unclear == "" }

// need notes why the action is unclear, unless ok. The first reason counts.
func (a *action) need(ok bool, why string) {
	if !ok && a.unclear == "" {
		a.unclear = why
	}
}

// Why an action is unclear, where several places find that.
const (
	unclearJSON  = "the arguments of the call are no JSON object, or one that programs read differently"
	unclearPath  = "the call names a path that agents may read in their own way, such as a relative one"
	unclearDir   = "the call names a folder to run in that agents may read in their own way"
	unclearFile  = "the call names no file"
	unclearExtra = "the call has arguments that may ask for more than a rule is about"
)

// The tools whose arguments we know, by the names that agents give them. A tool
// of an MCP server may take arguments of the same names and do something else
// with them.
var (
	shellTools = []string{"Bash", "bash", "shell", "exec_command", "local_shell", "run_shell_command", "execute_command"}
	editTools  = []string{"Write", "Edit", "MultiEdit", "NotebookEdit", "write", "edit", "create", "write_file", "replace", "apply_patch"}
	readTools  = []string{"Read", "read", "read_file", "view"}
	fetchTools = []string{"WebFetch", "webfetch", "web_fetch", "fetch"}
)

// The arguments of those tools by what they mean.
var (
	pathKeys  = []string{"file_path", "filepath", "filePath", "fileName", "notebook_path", "path", "absolute_path"}
	dirKeys   = []string{"cwd", "workdir", "directory", "dir_path"}
	shellKeys = []string{"command", "commands", "description", "timeout", "timeout_ms", "run_in_background", "is_background", "cwd", "workdir", "directory", "dir_path"}
	readKeys  = append([]string{"offset", "limit", "pages", "view_range"}, pathKeys...)
	fetchKeys = []string{"url", "prompt", "format", "timeout", "description"}
)

// unstorable are tools that no rule allows, and why.
var unstorable = map[string]string{
	"request_permissions": "gives the agent more permissions",
	"write_stdin":         "writes what is not shown to a command that runs",
}

// nameless are the names of calls of which the agent says only of which kind
// they are, such as all that run a command, or all that are of no other kind.
var nameless = []string{"delete", "move", "search", "execute", "think", "switch_mode", "other", "tool"}

// whyUnstorable returns why no rule allows a tool as a whole, "" if one may.
func whyUnstorable(tool string) string {
	if slices.Contains(nameless, tool) {
		return "stands for many tools of which the agent does not tell the names"
	}
	return unstorable[tool]
}

// actionOf returns what a call would do.
func actionOf(c Call) *action {
	a := &action{kind: store.RuleTool, tool: c.Approval.ToolName, dir: c.Dir}
	var args map[string]json.RawMessage
	if raw := c.Approval.Arguments; len(raw) > 0 && (strictjson.Check(raw) != nil || json.Unmarshal(raw, &args) != nil) {
		a.need(false, unclearJSON)
	}
	a.hidden = isHidden(c.Approval)
	a.need(!a.hidden, "a part of the call is hidden, such as a secret")
	a.readDir(args)
	a.command, a.url = text(args["command"]), text(args["url"])
	switch {
	case slices.Contains(shellTools, a.tool):
		a.kind = store.RuleExecute
		a.need(a.command != "", "the call names no command")
		a.need(onlyKeys(args, shellKeys), unclearExtra)
		a.need(sameCommands(args["commands"], a.command), "the call lists other commands beside its command")
		a.command = unwrapped(a.command)
	case len(c.Approval.Changes) > 0 || slices.Contains(editTools, a.tool):
		a.kind = store.RuleEdit
		a.need(a.readPaths(args) && a.readChanges(c.Approval.Changes), unclearPath)
		a.need(len(a.paths) > 0, unclearFile)
	case slices.Contains(readTools, a.tool):
		a.kind = store.RuleRead
		a.need(a.readPaths(args), unclearPath)
		a.need(onlyKeys(args, readKeys), unclearExtra)
		a.need(len(a.paths) > 0, unclearFile)
	case slices.Contains(fetchTools, a.tool):
		a.kind = store.RuleFetch
		a.need(a.url != "", "the call names no URL")
		a.need(onlyKeys(args, fetchKeys), unclearExtra)
	default:
		a.readPaths(args) // for rules that deny
		a.need(a.tool != "", "the call names no tool")
	}
	return a
}

// isHidden reports whether a part of what would run is not shown.
func isHidden(a event.Approval) bool {
	sum := sha256.Sum256(a.Arguments)
	if hex.EncodeToString(sum[:]) != a.ArgumentsDigest || strings.Contains(a.ToolName+string(a.Arguments), redact.Marker) {
		return true
	}
	return slices.ContainsFunc(a.Changes, func(c event.Change) bool { return strings.Contains(c.Path+c.MovedTo, redact.Marker) })
}

// readDir takes the directory that the arguments name.
func (a *action) readDir(args map[string]json.RawMessage) {
	for _, key := range dirKeys {
		raw, ok := args[key]
		if !ok || isNothing(raw) {
			continue
		}
		dir := text(raw)
		if dir == "" || strings.ContainsRune(dir, 0) {
			a.need(false, unclearDir)
			continue
		}
		a.need(isClear(dir) && (filepath.IsAbs(dir) || strings.IndexFunc(dir, notOfNames) < 0), unclearDir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(a.dir, dir)
		}
		a.dir = dir
	}
}

// readPaths takes the paths that the arguments name. It reports false if some
// cannot be understood.
func (a *action) readPaths(args map[string]json.RawMessage) bool {
	ok := true
	for _, key := range pathKeys {
		if raw, given := args[key]; given && !isNothing(raw) {
			ok = a.addPath(text(raw)) && ok
		}
	}
	raw, given := args["changes"]
	if !given {
		return ok
	}
	var changes []struct {
		Path string `json:"path"`
		Kind struct {
			MovePath *string `json:"move_path"`
		} `json:"kind"`
	}
	if json.Unmarshal(raw, &changes) != nil {
		return false
	}
	for _, c := range changes {
		ok = a.addPath(c.Path) && ok
		if c.Kind.MovePath != nil {
			ok = a.addPath(*c.Kind.MovePath) && ok
		}
	}
	return ok
}

// readChanges takes the paths of the files that the agent said it would change.
// It reports false if some may have been left out.
func (a *action) readChanges(changes []event.Change) bool {
	ok := len(changes) < event.MaxFiles
	for _, c := range changes {
		ok = a.addPath(c.Path) && ok
		if c.MovedTo != "" {
			ok = a.addPath(c.MovedTo) && ok
		}
	}
	return ok
}

// addPath takes a path. It reports false if the agent may mean another file
// than the path names: some expand ~ and variables, take a URL for a path, or a
// list of files, and what a relative path is relative to is not always the
// session's folder, but for instance the root of the repository.
func (a *action) addPath(path string) bool {
	if path == "" || strings.ContainsRune(path, 0) {
		return false
	}
	if !slices.Contains(a.paths, path) {
		a.paths = append(a.paths, path)
	}
	return filepath.IsAbs(path) && isClear(path)
}

// isClear reports whether agents take a path as it is: some trim spaces, and
// remove backslashes as a shell does.
func isClear(path string) bool {
	return shown(path, maxPattern) && strings.TrimSpace(path) == path && (filepath.Separator == '\\' || !strings.Contains(path, `\`))
}

// notOfNames reports whether a relative path with r in it may mean something
// else to an agent, such as a home directory.
func notOfNames(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/ ", r)
}

// onlyKeys reports whether all arguments but those that say nothing are among
// keys.
func onlyKeys(args map[string]json.RawMessage, keys []string) bool {
	for key, raw := range args {
		if !slices.Contains(keys, key) && !isNothing(raw) {
			return false
		}
	}
	return true
}

// isNothing reports whether an argument is as good as absent.
func isNothing(raw json.RawMessage) bool {
	return slices.Contains([]string{"null", "false", `""`, "0", "[]", "{}"}, string(raw))
}

// sameCommands reports whether a list of commands, which some agents send
// beside the command, is that command alone.
func sameCommands(raw json.RawMessage, command string) bool {
	if isNothing(raw) || len(raw) == 0 {
		return true
	}
	var list []string
	return json.Unmarshal(raw, &list) == nil && len(list) == 1 && list[0] == command
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
