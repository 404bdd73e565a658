package rules

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Bounds of the fields of a rule, in bytes.
const (
	maxPattern = 4 << 10
	maxName    = 200
	maxNote    = 500
)

// Check validates a rule and returns it in the form in which it is stored. Its
// errors name the field and what is wrong with it. It rejects rules that would
// allow more than their text suggests.
func Check(r store.Rule) (store.Rule, error) {
	switch {
	case r.Effect != store.EffectAllow && r.Effect != store.EffectDeny:
		return r, fmt.Errorf("effect: unknown value %q; want allow or deny", r.Effect)
	case !shown(r.Pattern, maxPattern):
		return r, fmt.Errorf("pattern: at most %d bytes of printable text", maxPattern)
	case !shown(r.Tool, maxName) || !shown(r.CLIType, maxName):
		return r, fmt.Errorf("tool, cliType: at most %d bytes of printable text", maxName)
	case !shown(r.Note, maxNote):
		return r, fmt.Errorf("note: at most %d bytes of printable text", maxNote)
	}
	if r.SessionID != "" && !r.Kind.IsSandbox() {
		return r, errors.New("sessionId: only a rule of kind sandbox_read or sandbox_write can be for one session; leave it out")
	}
	if r.ProjectDir != "" {
		dir, err := folder("projectDir", r.ProjectDir)
		if err != nil {
			return r, err
		}
		r.ProjectDir = dir
	}
	switch r.Kind {
	case store.RuleExecute:
		return checkCommand(r)
	case store.RuleEdit, store.RuleRead:
		return checkPath(r)
	case store.RuleFetch:
		host := strings.ToLower(r.Pattern)
		name, port, _ := strings.Cut(strings.TrimPrefix(host, "*."), ":")
		if !isHost(name) || strings.Trim(port, "0123456789") != "" || strings.HasPrefix(host, "*.") && !strings.Contains(name, ".") {
			return r, fmt.Errorf("pattern: %q is not a host; want a host such as example.com, or *.example.com for the hosts below it", r.Pattern)
		}
		r.Pattern = host
		return r, nil
	case store.RuleConnect:
		return checkConnection(r)
	case store.RuleTool:
		return checkTool(r)
	case store.RuleSandboxRead, store.RuleSandboxWrite:
		return checkSandbox(r)
	}
	return r, fmt.Errorf("kind: unknown value %q; want execute, edit, read, fetch, connect, tool, sandbox_read or sandbox_write", r.Kind)
}

func checkConnection(r store.Rule) (store.Rule, error) {
	r.Pattern = strings.ToLower(r.Pattern)
	host, port, has := strings.Cut(strings.TrimPrefix(r.Pattern, "*."), ":")
	n, _ := strconv.Atoi(port)
	switch {
	case r.Tool != "" && r.Tool != event.ToolConnect:
		return r, fmt.Errorf("tool: a rule of kind connect has none; it applies to all programs in the sandbox")
	case !isHost(host) || strings.Trim(port, "0123456789") != "" || strings.HasPrefix(r.Pattern, "*.") && !strings.Contains(host, "."):
		return r, fmt.Errorf("pattern: %q is not a host; want a host such as example.com or example.com:8443, or *.example.com for the hosts below it", r.Pattern)
	case has && (n < 1 || n > 65535 || strconv.Itoa(n) != port):
		return r, fmt.Errorf("pattern: %q: the port must be a number from 1 to 65535", r.Pattern)
	}
	r.Tool = ""
	return r, nil
}

func checkCommand(r store.Rule) (store.Rule, error) {
	p, err := parsePattern(strings.TrimSpace(r.Pattern))
	if err != nil {
		return r, fmt.Errorf("pattern: %q is %w; want a command such as git status, or git log * for any further words", r.Pattern, err)
	}
	r.Pattern = p.String()
	if _, err := parsePattern(r.Pattern); err != nil {
		return r, fmt.Errorf("pattern: a word of %q ends with a backslash, so no rule can match it", r.Pattern)
	}
	if r.Effect == store.EffectDeny {
		return r, nil
	}
	if runtime.GOOS == "windows" {
		return r, errors.New("pattern: commands cannot be allowed by rules on Windows, where shells read the same text differently")
	}
	if p.more {
		if why := checkWildcard(p); why != "" {
			return r, fmt.Errorf("pattern: %q cannot be allowed with any arguments: %s", r.Pattern, why)
		}
	}
	return r, nil
}

func checkPath(r store.Rule) (store.Rule, error) {
	path := r.Pattern
	if path != "" && !filepath.IsAbs(path) && r.ProjectDir != "" {
		path = filepath.Join(r.ProjectDir, path)
	}
	path, err := folder("pattern", path)
	r.Pattern = path
	return r, err
}

func checkTool(r store.Rule) (store.Rule, error) {
	switch {
	case r.Tool == "":
		return r, errors.New("tool: is missing; name the tool to which the rule applies")
	case r.Pattern != "":
		return r, errors.New("pattern: a rule of kind tool has none; it applies to every call of the tool")
	case r.Effect == store.EffectDeny:
		return r, nil
	case whyUnstorable(r.Tool) != "":
		return r, fmt.Errorf("tool: %s %s; answer each of its questions", r.Tool, whyUnstorable(r.Tool))
	}
	for kind, tools := range map[store.RuleKind][]string{
		store.RuleExecute: shellTools, store.RuleEdit: editTools, store.RuleRead: readTools, store.RuleFetch: fetchTools, store.RuleConnect: {event.ToolConnect},
	} {
		if slices.Contains(tools, r.Tool) {
			return r, fmt.Errorf("tool: %s cannot be allowed as a whole; make a rule of kind %s, with a pattern", r.Tool, kind)
		}
	}
	return r, nil
}

// folder returns the absolute path of a file or folder with its links resolved.
func folder(field, path string) (string, error) {
	if len(path) > maxPath {
		return "", fmt.Errorf("%s: has %d bytes; a path has at most %d", field, len(path), maxPath)
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: %q is not an absolute path", field, path)
	}
	real, err := resolve("", path)
	if err != nil {
		return "", fmt.Errorf("%s: %q cannot be resolved; name a file or folder that exists, without ..", field, path)
	}
	return real, nil
}

// shown reports whether a text can be shown to people unchanged: it is
// printable and has at most limit bytes.
func shown(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
