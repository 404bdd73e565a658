package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/runnel-dev/runnel/internal/text"
)

// The bounds of a profile.
const (
	MaxFile = 256 << 10 // bytes of the file

	maxList        = 100  // entries of a list
	maxName        = 64   // bytes of a profile's name
	maxModel       = 128  // bytes of a model's name
	maxDescription = 1000 // bytes
	maxScalar      = 200  // bytes of any other value
	maxTurns       = 10_000
)

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	toolForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`) })
)

// IsName reports whether name can be the name of a profile: lower-case letters,
// digits, _ and -, at most 64 characters, the first a letter or digit.
func IsName(name string) bool { return len(name) <= maxName && nameForm.MatchString(name) }

// A FileError reports what is wrong with a file, and in which line.
type FileError struct {
	File string // name of the file
	Line int    // 0 if the error is about the whole file
	Why  string // what is wrong, and what to do
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Why
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Why
}

// Parse parses data, the file of a profile. name is the profile's name. Every
// error is a *FileError, in which the file is called name.md. Parse is strict:
// unknown keys, repeated keys and values of the wrong kind are errors.
func Parse(name string, data []byte) (Profile, error) {
	p, file := Profile{Name: name}, name+".md"
	front, rest, at, err := split(data)
	if err != nil {
		return p, err.in(file)
	}
	root, err := parseYAML(front)
	if err != nil {
		return p, err.in(file)
	}
	if err := p.decode(root); err != nil {
		return p, err.in(file)
	}
	if p.Text = rest; rest != "" {
		p.lines[textKey] = at
	}
	return p, nil
}

// A problem is an error in one line of a file.
type problem struct {
	line int
	why  string
}

func (e *problem) in(file string) error { return &FileError{File: file, Line: e.line, Why: e.why} }

func wrong(line int, format string, args ...any) *problem {
	return &problem{line, fmt.Sprintf(format, args...)}
}

// textKey is the key of Profile.lines for the text behind the front matter.
const textKey = ""

// split returns the front matter of a file, the text after it, and the number
// of the text's first line. In front an empty line replaces the opening ---, so
// that lines have the same numbers as in the file.
func split(data []byte) (front []byte, rest string, at int, err *problem) {
	if len(data) > MaxFile {
		return nil, "", 0, wrong(0, "has %d bytes; at most %d are allowed", len(data), MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if at := invalidText(data); at >= 0 {
		return nil, "", 0, wrong(lineOf(data, at), "is not text in UTF-8, or holds a NUL character; save it as UTF-8")
	}
	lines := strings.Split(string(data), "\n")
	if strings.TrimRight(lines[0], " \t") != "---" {
		return nil, "", 0, wrong(1, "does not begin with front matter; write a line --- before and after the settings")
	}
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t") == "---" {
			front = []byte("\n" + strings.Join(lines[1:1+i], "\n"))
			rest, at = strings.Join(lines[2+i:], "\n"), i+3
			text := strings.TrimLeft(rest, "\n")
			return front, strings.TrimRight(text, "\n"), at + len(rest) - len(text), nil
		}
	}
	return nil, "", 0, wrong(1, "the front matter does not end; write a line --- after the settings")
}

// invalidText returns the position of the first byte that is a NUL or not
// UTF-8, or -1 if there is none.
func invalidText(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// lineOf returns the number of the line that contains the byte at a position.
func lineOf(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }

// yamlLine matches the line number in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAML returns the settings in front as a mapping node, or nil if there
// are none.
func parseYAML(front []byte) (*yaml.Node, *problem) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(front))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil { // the decoder would ignore lines that follow a line such as ...
		if err = dec.Decode(&more); err == nil {
			return nil, wrong(more.Line, "is not YAML: the settings end before their last line")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		why := err.Error()
		if list, ok := errors.AsType[*yaml.TypeError](err); ok && len(list.Errors) > 0 {
			why = "yaml: " + list.Errors[0]
		}
		line := 1
		if m := yamlLine.FindStringSubmatch(why); m != nil {
			why = why[len(m[0]):]
			if n, err := strconv.Atoi(m[1]); err == nil {
				line = n
			}
		}
		return nil, wrong(line, "is not YAML: %s", text.OneLine(why, maxScalar))
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, wrong(root.Line, "must be settings, each as name: value")
	}
	return root, nil
}

// A field is a key of the front matter and the function that reads its value.
type field struct {
	key  string
	read func(*Profile, *yaml.Node) *problem
}

// fields returns the keys of the front matter.
func fields() []field {
	return []field{
		{"description", func(p *Profile, n *yaml.Node) *problem { return readText(n, maxDescription, &p.Description) }},
		{"model", func(p *Profile, n *yaml.Node) *problem { return readText(n, maxModel, &p.Model) }},
		{"tools", func(p *Profile, n *yaml.Node) *problem {
			if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
				return wrong(n.Line, "is an empty list; name tools, or leave it out for the agent's own")
			}
			return readList(n, &p.Tools, checkTool)
		}},
		{"max_turns", func(p *Profile, n *yaml.Node) *problem { return readCount(n, &p.MaxTurns) }},
		{"sandbox", func(p *Profile, n *yaml.Node) *problem { return readText(n, maxScalar, (*string)(&p.Sandbox)) }},
		{"subagents", func(p *Profile, n *yaml.Node) *problem { return readList(n, &p.Subagents, checkName) }},
		{"disallowed_tools", func(p *Profile, n *yaml.Node) *problem { return readList(n, &p.DisallowedTools, checkTool) }},
		{"auto_approve_tools", func(p *Profile, n *yaml.Node) *problem { return readList(n, &p.AutoApproveTools, checkTool) }},
		{"AGENT_TYPE", func(p *Profile, n *yaml.Node) *problem { return readScalar(n, &p.AgentType) }},
		{"AGENT_CLASS", func(p *Profile, n *yaml.Node) *problem { return readScalar(n, &p.AgentClass) }},
	}
}

// decode reads the settings of the front matter into p.
func (p *Profile) decode(root *yaml.Node) *problem {
	p.lines = make(map[string]int)
	if root == nil {
		return nil
	}
	known, lines := fields(), p.lines
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := slices.IndexFunc(known, func(f field) bool { return f.key == key.Value })
		if at < 0 || key.Kind != yaml.ScalarNode {
			return wrong(key.Line, "%s", unknownKey(key.Value, keysOf(known)))
		}
		if first, twice := lines[key.Value]; twice {
			return wrong(key.Line, "%s: is set in line %d already; remove one of them", key.Value, first)
		}
		lines[key.Value] = key.Line
		if err := known[at].read(p, value); err != nil {
			err.why = key.Value + ": " + err.why
			return err
		}
	}
	return nil
}

func keysOf(known []field) []string {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.key
	}
	return names
}

// unknownKey returns the error text for a key that is not one of names.
func unknownKey(key string, names []string) string {
	shown := strconv.Quote(text.OneLine(key, maxName))
	if near := nearest(key, names); near != "" {
		return "unknown key " + shown + "; did you mean " + near + "?"
	}
	return "unknown key " + shown + "; the keys are " + strings.Join(names, ", ")
}

// readText reads a text of at most limit bytes that is not blank.
func readText(n *yaml.Node, limit int, into *string) *problem {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return wrong(n.Line, "must be text, not %s", kindOf(n))
	}
	switch value := strings.TrimSpace(n.Value); {
	case value == "":
		return wrong(n.Line, "is blank; leave it out")
	case len(value) > limit:
		return wrong(n.Line, "has %d bytes; at most %d are allowed", len(value), limit)
	default:
		*into = value
	}
	return nil
}

// readScalar reads a single value as it is written, such as 2 or TASK.
func readScalar(n *yaml.Node, into *string) *problem {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return wrong(n.Line, "must be one value, not %s", kindOf(n))
	}
	if len(n.Value) > maxScalar {
		return wrong(n.Line, "has %d bytes; at most %d are allowed", len(n.Value), maxScalar)
	}
	*into = n.Value
	return nil
}

func readCount(n *yaml.Node, into *int) *problem {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return wrong(n.Line, "must be a number, not %s", kindOf(n))
	}
	if err := n.Decode(into); err != nil || *into < 1 || *into > maxTurns {
		return wrong(n.Line, "%s is not a number from 1 to %d", text.OneLine(n.Value, maxName), maxTurns)
	}
	return nil
}

// readList reads a list of names. It calls check with each name; check returns
// what is wrong with the name, or "".
func readList(n *yaml.Node, into *[]string, check func(string) string) *problem {
	if n.Kind != yaml.SequenceNode {
		return wrong(n.Line, "must be a list such as [one, two], not %s", kindOf(n))
	}
	if len(n.Content) > maxList {
		return wrong(n.Line, "%d entries are too many; at most %d are allowed", len(n.Content), maxList)
	}
	list := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return wrong(item.Line, "an entry must be a name, not %s", kindOf(item))
		}
		if why := check(item.Value); why != "" {
			return wrong(item.Line, "%s", why)
		}
		if slices.Contains(list, item.Value) {
			return wrong(item.Line, "%q is in the list twice; remove one of them", item.Value)
		}
		list = append(list, item.Value)
	}
	*into = list
	return nil
}

// checkTool returns what is wrong with the name of a tool, or "". It rejects
// patterns such as Bash(git push:*), because profiles apply to whole tools.
func checkTool(name string) string {
	switch shown := strconv.Quote(text.OneLine(name, maxName)); {
	case strings.ContainsAny(name, "(*"):
		return shown + " is a pattern; name a whole tool such as Bash, or an MCP server such as mcp__server, and make a rule for a command"
	case !toolForm().MatchString(name):
		return shown + " is not the name of a tool; it has letters, digits and . _ : / @ -"
	}
	return ""
}

func checkName(name string) string {
	if IsName(name) {
		return ""
	}
	return strconv.Quote(text.OneLine(name, maxName)) + " is not the name of a profile; it has a to z, 0 to 9, _ and -, at most 64 of them"
}

// kindOf describes the kind of a value in an error message.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "settings of its own"
	case n.Kind == yaml.AliasNode:
		return "a reference to another value"
	case n.Tag == "!!null":
		return "nothing"
	default:
		return strconv.Quote(text.OneLine(n.Value, maxName))
	}
}

// nearest returns the word in list that a person who typed word most likely
// meant, or "" if none is similar.
func nearest(word string, list []string) string {
	best, least := "", 3
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	if len(word) > maxName {
		return ""
	}
	for _, candidate := range list {
		if d := distance(plain(word), plain(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns how many bytes must be added, removed or replaced to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
