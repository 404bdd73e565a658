package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// In its mode auto-edit, Qwen Code 0.24.4 asks about commands and hardly about
// anything else: it changes files anywhere, fetches addresses, schedules prompts and
// starts subagents. So Runnel does not use this mode for accepted edits: Qwen Code
// then runs in its mode default, with rules that allow edits in the folder.

// qwenAcceptEdits returns env, changed so that Qwen Code asks about no edit in dir,
// except of protectedPaths. A rule that allows compares paths by their text.
// A rule that asks comes first and also follows links, so it covers what a link in
// the folder leads to. In its mode plan, Qwen Code would make the allowed edits
// nevertheless, so the model cannot enter that mode.
func qwenAcceptEdits(env []string, dir string) ([]string, error) {
	allow, ask := editRules(dir)
	return qwenDefaults.change(env, func(settings map[string]json.RawMessage) error {
		if err := permit(settings, "allow", allow...); err != nil {
			return err
		}
		if err := permit(settings, "ask", ask...); err != nil {
			return err
		}
		return permit(settings, "deny", "enter_plan_mode")
	})
}

// editRules returns the rules of Qwen Code about edits in dir. On Windows, paths do
// not match them, and Qwen Code asks about each edit.
func editRules(dir string) (allow, ask []string) {
	if dir == "" {
		dir, _ = os.Getwd() // the agent works there
	}
	folders := []string{dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		folders = append(folders, real)
	}
	names := make([]string, len(protectedPaths))
	for i, name := range protectedPaths {
		name = strings.TrimSuffix(name, "/")
		if name == ".qwen" {
			name += "/!(worktrees)" // worktrees of Qwen Code are in .qwen/worktrees
		}
		names[i] = anyCase(name)
	}
	var inside []string
	for _, folder := range folders {
		path := literal(strings.Trim(filepath.ToSlash(folder), "/")) + "/"
		if path == "/" {
			path = ""
		}
		allow = append(allow, "Edit(//"+path+"**)")
		ask = append(ask, "Edit(//"+path+"**/@("+strings.Join(names, "|")+")/**)")
		inside = append(inside, path+"**")
	}
	return allow, append(ask, "Edit(//!("+strings.Join(inside, "|")+"))")
}

// literal returns a pattern of Qwen Code that matches only path. Qwen Code replaces
// a $ and a name in its settings by a variable.
func literal(path string) string {
	var b strings.Builder
	for _, r := range path {
		switch {
		case r == '$':
			b.WriteString("[$]")
			continue
		case r < 0x80 && !isWord(r) && r != '/' && r != '-':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// anyCase returns a pattern that matches name in any case, because a file system
// may ignore the case. It keeps the characters of a pattern.
func anyCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z':
			b.WriteString("[" + string(r) + strings.ToUpper(string(r)) + "]")
		case r == '.':
			b.WriteString(`\.`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
