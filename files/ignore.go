package files

import (
	"io"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Bounds of the files with git's ignore rules. What is beyond them is ignored.
const (
	maxRulesFile = 256 << 10 // bytes
	maxRules     = 1000      // rules of one file
	maxRule      = 1000      // bytes of one rule
	maxRuleFiles = 20        // files whose rules apply to one path
	maxAllRules  = 2000      // rules that apply to one path
	maxWork      = 8 << 20   // comparisons of characters for one path by rules with "**", at most. It takes some tens of milliseconds
)

// rules are the ignore rules of one directory, and those of the directories
// above it in the project.
type rules struct {
	dir   string // path of the directory in the project; "" for the project
	list  []rule
	up    *rules // nil in the project's directory
	depth int    // number of files whose rules are in the list and above
	total int    // number of rules in the list and above
}

// A rule is a line of a .gitignore file.
type rule struct {
	pattern string
	include bool // the rule begins with "!"
	folders bool // the rule applies only to directories
	path    bool // the pattern applies to the path from the rule's directory. Otherwise it applies to the name
	deep    bool // the pattern is compared from each element of the path on
}

// parseRule returns the rule in a line, or false if there is none.
func parseRule(line string) (r rule, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	if strings.HasPrefix(line, "#") || len(line) > maxRule {
		return r, false
	}
	line = trimSpaces(line)
	line, r.include = strings.CutPrefix(line, "!")
	line, r.folders = strings.CutSuffix(line, "/")
	r.path = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if strings.HasSuffix(line, "/**") { // what is in the directory, but not the directory itself
		line += "/*"
	}
	r.pattern = literalBraces(line)
	r.deep = strings.Contains(line, "**")
	return r, line != "" && doublestar.ValidatePattern(r.pattern)
}

// trimSpaces removes the spaces at the end of a rule, but not one after a
// backslash.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' && !(end > 1 && line[end-2] == '\\') {
		end--
	}
	return line[:end]
}

// literalBraces escapes braces, which have no meaning in a rule of git.
func literalBraces(pattern string) string {
	if !strings.ContainsAny(pattern, "{}") {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte('\\')
			b.WriteByte(pattern[i])
		case c == '{' || c == '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (r rule) matches(p string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	if !r.path {
		p = path.Base(p)
	}
	return doublestar.MatchUnvalidated(r.pattern, p)
}

// ignores reports whether git ignores p, a path in the project whose directory
// git does not ignore. It leaves out rules beyond maxWork.
func (r *rules) ignores(p string, folder bool) bool {
	work := 0
	for ; r != nil; r = r.up {
		from := p
		if r.dir != "" {
			from = p[len(r.dir)+1:]
		}
		for i := len(r.list) - 1; i >= 0; i-- { // the last rule that matches decides
			if r.list[i].deep {
				work += len(r.list[i].pattern) * len(from)
			}
			if work > maxWork {
				return false
			}
			if r.list[i].matches(from, folder) {
				return !r.list[i].include
			}
		}
	}
	return false
}

// in returns the rules for the directory dir of the project root, which are
// those of r and of the .gitignore file in dir.
func (r *rules) in(root *os.Root, dir string) *rules {
	return r.with(readRules(root, path.Join(dir, ".gitignore")), dir)
}

// with returns r with the rules of the directory dir.
func (r *rules) with(list []rule, dir string) *rules {
	depth, total := 0, 0
	if r != nil {
		depth, total = r.depth, r.total
	}
	if len(list) == 0 || depth >= maxRuleFiles || total+len(list) > maxAllRules {
		return r
	}
	return &rules{dir: dir, list: list, up: r, depth: depth + 1, total: total + len(list)}
}

// projectRules returns the rules for the project's directory.
func projectRules(root *os.Root) *rules {
	var r *rules
	if list := readRules(root, ".git/info/exclude"); len(list) > 0 {
		r = &rules{list: list, depth: 1, total: len(list)}
	}
	return r.in(root, "")
}

// rulesOf returns the rules for the directory dir of the project. It opens each
// directory on the way once: a path can have two thousand.
func rulesOf(root *os.Root, dir string) *rules {
	r, at := projectRules(root), root
	for end := 0; end < len(dir); end++ {
		name, _, _ := strings.Cut(dir[end:], "/")
		sub, err := nofollow.OpenDir(at, name)
		if at != root {
			_ = at.Close()
		}
		if err != nil {
			return r
		}
		at, end = sub, end+len(name)
		r = r.with(readRules(at, ".gitignore"), dir[:end])
	}
	if at != root {
		_ = at.Close()
	}
	return r
}

// readRules returns the rules of a file, or none if it cannot be read.
func readRules(root *os.Root, name string) (list []rule) {
	f, err := nofollow.Open(root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRulesFile))
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if r, ok := parseRule(line); ok && len(list) < maxRules {
			list = append(list, r)
		}
	}
	return list
}
