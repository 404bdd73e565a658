package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/store"
)

// An action is what a tool call would do, as far as its arguments show.
type action struct {
	kind    store.RuleKind
	tool    string
	command string   // shell command, if any
	dir     string   // working directory, and base of relative paths
	paths   []string // files that the call changes or reads
	url     string
	host    string // of a connection from a sandbox; "" if there is none
	port    int

	words    []string // of command, see simpleCommand
	wordsErr error
	isSplit  bool // words and wordsErr are set

	copied, original string // see Call.Copy

	located map[string]location  // of paths and dir, as far as a rule needed them; see locate
	files   map[string]*diskFile // see existing

	// unclear says for people which argument Runnel does not understand; "" if
	// it understands all of them. An unknown argument may ask for more than the
	// fields here show, such as to run a command outside of the agent's
	// sandbox. No rule allows an unclear action.
	unclear string

	// hidden reports that the arguments shown differ from those that would run: a
	// secret was removed, and perhaps other text with it.
	hidden bool
}

// plain reports whether Runnel understands every argument.
func (a *action) plain() bool { return a.unclear == "" }

// need records why as the reason that the action is unclear, unless ok. The
// first reason is kept.
func (a *action) need(ok bool, why string) {
	if !ok && a.unclear == "" {
		a.unclear = why
	}
}

// simpleCommand returns the words of the command, see [simpleCommand]. It parses
// the command only once for all rules.
func (a *action) simpleCommand() ([]string, error) {
	if !a.isSplit {
		a.words, a.wordsErr = simpleCommand(a.command)
		a.isSplit = true
	}
	return a.words, a.wordsErr
}

// Reasons for an unclear action that several places use.
const (
	unclearJSON  = "the arguments of the call are not a JSON object, or programs could read them in different ways"
	unclearPath  = "the call names a path that agents may resolve in different ways, such as a relative path"
	unclearDir   = "the call names a working directory that agents may resolve in different ways"
	unclearFile  = "the call names no file"
	unclearExtra = "the call has arguments that may ask for more than a rule covers"
)

// The tools whose arguments we know, by the names that agents use. Tools of MCP
// servers are not listed: they may take arguments with the same names and use
// them differently.
var (
	shellTools = []string{"Bash", "bash", "shell", "exec_command", "local_shell", "run_shell_command", "execute_command"}
	editTools  = []string{"Write", "Edit", "MultiEdit", "NotebookEdit", "write", "edit", "create", "write_file", "replace", "apply_patch"}
	readTools  = []string{"Read", "read", "read_file", "view"}
	fetchTools = []string{"WebFetch", "webfetch", "web_fetch", "fetch"}
)

// The names of the arguments of the tools above, grouped by meaning.
var (
	pathKeys  = []string{"file_path", "filepath", "filePath", "fileName", "notebook_path", "path", "absolute_path"}
	dirKeys   = []string{"cwd", "workdir", "directory", "dir_path"}
	shellKeys = []string{"command", "commands", "description", "timeout", "timeout_ms", "run_in_background", "is_background", "cwd", "workdir", "directory", "dir_path"}
	readKeys  = append([]string{"offset", "limit", "pages", "view_range"}, pathKeys...)
	fetchKeys = []string{"url", "prompt", "format", "timeout", "description"}
)

// unstorable maps tools that no rule may allow to the reason.
var unstorable = map[string]string{
	"request_permissions": "gives the agent more permissions",
	"write_stdin":         "writes input to a running command without showing it",
}

// nameless are tool names that do not identify a tool, because agents use each
// of them for all calls of one kind. For example, an agent may name every
// command "execute", and every call of an unknown kind "other".
var nameless = []string{"delete", "move", "search", "execute", "think", "switch_mode", "other", "tool"}

// whyUnstorable returns why no rule may allow every call of a tool; "" if a
// rule may.
func whyUnstorable(tool string) string {
	if slices.Contains(nameless, tool) {
		return "stands for several tools, and the agent does not report which one"
	}
	return unstorable[tool]
}

// actionOf returns what a call would do.
func actionOf(c Call) *action {
	a := &action{kind: store.RuleTool, tool: c.Approval.ToolName, dir: c.Dir, copied: c.Copy, original: c.Original, located: make(map[string]location), files: make(map[string]*diskFile)}
	var args map[string]json.RawMessage
	if raw := c.Approval.Arguments; len(raw) > 0 && (strictjson.Check(raw) != nil || json.Unmarshal(raw, &args) != nil) {
		a.need(false, unclearJSON)
	}
	a.hidden = isHidden(c.Approval)
	a.need(!a.hidden, "a part of the call is hidden, such as a secret")
	a.readDir(args)
	a.command, a.url = text(args["command"]), text(args["url"])
	switch {
	case a.tool == event.ToolConnect:
		a.kind = store.RuleConnect
		a.need(a.readConnection(args), "the call names no host and port that a rule can match")
	case slices.Contains(shellTools, a.tool):
		a.kind = store.RuleExecute
		a.need(a.command != "", "the call names no command")
		a.need(onlyKeys(args, shellKeys), unclearExtra)
		a.need(sameCommands(args["commands"], a.command), "the call lists other commands besides its command")
		a.command = unwrapped(a.command)
	case len(c.Approval.Changes) > 0 || slices.Contains(editTools, a.tool):
		a.kind = store.RuleEdit
		a.need(a.readPaths(args) && a.readChanges(c.Approval.Changes), unclearPath)
		a.need(len(a.paths) > 0, unclearFile)
		a.need(len(args["grantRoot"]) == 0 || isNothing(args["grantRoot"]), unclearExtra) // a folder in which the agent asks to write from now on
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
		a.readPaths(args) // deny rules use the paths
		a.need(a.tool != "", "the call names no tool")
	}
	return a
}

// readConnection reads the host and the port of a connection. It also sets
// a.url, so that a rule that denies requests to a host denies connections to it.
// It reports false if a rule cannot match the host.
func (a *action) readConnection(args map[string]json.RawMessage) bool {
	host, port := text(args["host"]), 0
	if json.Unmarshal(args["port"], &port) != nil || port < 1 || port > 65535 || !isHost(host) || !onlyKeys(args, []string{"host", "port"}) {
		return false
	}
	scheme := "https"
	if port == 80 {
		scheme = "http"
	}
	a.host, a.port, a.url = host, port, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(port))
	return true
}

// isHidden reports whether the approval does not show a part of what would run.
func isHidden(a event.Approval) bool {
	sum := sha256.Sum256(a.Arguments)
	if hex.EncodeToString(sum[:]) != a.ArgumentsDigest || strings.Contains(a.ToolName+string(a.Arguments), redact.Marker) {
		return true
	}
	return slices.ContainsFunc(a.Changes, func(c event.Change) bool { return strings.Contains(c.Path+c.MovedTo, redact.Marker) })
}

// readDir sets a.dir to the working directory that the arguments name, if they
// name one. It marks the action as unclear if the agent may use another one,
// such as when the arguments name two: each agent reads only one of the keys.
func (a *action) readDir(args map[string]json.RawMessage) {
	first := ""
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
		a.need(first == "" || dir == first, unclearDir)
		first = dir
		a.need(isClear(dir) && (filepath.IsAbs(dir) || strings.IndexFunc(dir, notOfNames) < 0), unclearDir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(a.dir, dir)
		}
		a.dir = dir
	}
}

// readPaths adds the paths in the arguments to a.paths. It reports false if
// Runnel cannot understand one of them.
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

// readChanges adds the paths of the changes that the agent announced to
// a.paths. It reports false if a path is unclear, or if the list may be
// incomplete.
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

// addPath adds a path to a.paths. It reports false if the agent may mean
// another file than the path names. Some agents expand ~ and variables, or read
// the text as a URL or as a list of files. A relative path always gives false,
// because an agent may resolve it from another folder than the session's, such
// as the repository's root.
func (a *action) addPath(path string) bool {
	if path == "" || strings.ContainsRune(path, 0) {
		return false
	}
	if !slices.Contains(a.paths, path) {
		a.paths = append(a.paths, path)
	}
	return filepath.IsAbs(path) && isClear(path)
}

// isClear reports whether agents use a path unchanged. Some agents trim spaces,
// or remove backslashes as a shell does.
func isClear(path string) bool {
	return shown(path, maxPattern) && strings.TrimSpace(path) == path && (filepath.Separator == '\\' || !strings.Contains(path, `\`))
}

// notOfNames reports whether r is a character that names of files seldom have,
// and that an agent may interpret. For example, an agent may replace ~ by the
// home directory.
func notOfNames(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/ ", r)
}

// onlyKeys reports whether all arguments that are not empty are among keys.
func onlyKeys(args map[string]json.RawMessage, keys []string) bool {
	for key, raw := range args {
		if !slices.Contains(keys, key) && !isNothing(raw) {
			return false
		}
	}
	return true
}

// isNothing reports whether an argument has an empty value, which means the
// same as no argument.
func isNothing(raw json.RawMessage) bool {
	return slices.Contains([]string{"null", "false", `""`, "0", "[]", "{}"}, string(raw))
}

// sameCommands reports whether a list of commands is empty or holds only the
// given command. Some agents send such a list beside the command.
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
