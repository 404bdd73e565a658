package profile

import (
	"path/filepath"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/runnel-dev/runnel"
)

// maxPrompt bounds systemPromptAppend in a file, in bytes.
const maxPrompt = 32 << 10

// A setting is an option that a file may set, and the function that reads its
// value.
type setting struct {
	name string // JSON name of the option
	read func(*runnel.Options, *yaml.Node) *problem
}

// settings returns the options that a file may set. They include none that
// starts a program, such as mcpServers.
func settings() []setting {
	return []setting{
		{"model", func(o *runnel.Options, n *yaml.Node) *problem { return readText(n, maxModel, &o.Model) }},
		{"tools", func(o *runnel.Options, n *yaml.Node) *problem { return readTools(n, &o.Tools) }},
		{"maxTurns", func(o *runnel.Options, n *yaml.Node) *problem { return readNumber(n, &o.MaxTurns) }},
		{"permissionMode", func(o *runnel.Options, n *yaml.Node) *problem {
			return readText(n, maxScalar, (*string)(&o.PermissionMode))
		}},
		{"reasoningEffort", func(o *runnel.Options, n *yaml.Node) *problem { return readText(n, maxScalar, &o.ReasoningEffort) }},
		{"config", func(o *runnel.Options, n *yaml.Node) *problem { return readValues(n, &o.Config) }},
		{"maxThinkingTokens", func(o *runnel.Options, n *yaml.Node) *problem { return readNumber(n, &o.MaxThinkingTokens) }},
		{"disallowedTools", func(o *runnel.Options, n *yaml.Node) *problem { return readList(n, &o.DisallowedTools, checkTool) }},
		{"thinkingDisplay", func(o *runnel.Options, n *yaml.Node) *problem {
			return readText(n, maxScalar, (*string)(&o.ThinkingDisplay))
		}},
		{"addDirs", func(o *runnel.Options, n *yaml.Node) *problem { return readList(n, &o.AddDirs, checkPath) }},
		{"budget", func(o *runnel.Options, n *yaml.Node) *problem { return readBudget(n, &o.Budget) }},
		{"turnBudget", func(o *runnel.Options, n *yaml.Node) *problem { return readBudget(n, &o.TurnBudget) }},
		{"keys", func(o *runnel.Options, n *yaml.Node) *problem { return readText(n, maxScalar, (*string)(&o.Keys)) }},
		{"sandbox", func(o *runnel.Options, n *yaml.Node) *problem { return readText(n, maxScalar, (*string)(&o.Sandbox)) }},
		{"egress", func(o *runnel.Options, n *yaml.Node) *problem { return readEgress(n, &o.Egress) }},
		{"systemPromptAppend", func(o *runnel.Options, n *yaml.Node) *problem { return readText(n, maxPrompt, &o.SystemPromptAppend) }},
	}
}

// refusedInProjects has the reason why a project's file must not set an option
// that the server's configuration may set.
var refusedInProjects = map[string]string{
	"budget":     "may raise the server's; set it in the server's configuration, or for the session",
	"turnBudget": "may raise the server's; set it in the server's configuration, or for the session",
	"config":     "may decide what the agent does without asking; set it in the server's configuration, or for the session",
	"egress":     "leads out of the sandbox; set it in the server's configuration, or for the session",
	"addDirs":    "leads out of the project; set it in the server's configuration, or for the session",
}

// parseProject parses the settings file of a project. name is the name of the
// file in errors.
func parseProject(name string, data []byte) (Source, error) {
	s := Source{From: FromProject, Name: name}
	root, err := settingsOf(data)
	if err == nil {
		err = s.decode(root)
	}
	if err != nil {
		return s, refused(err.in(name))
	}
	for _, o := range options {
		if why := refusedInProjects[o.name]; why != "" && o.given(&s.Options) {
			return s, refused(wrong(s.Lines[o.name], "%s: %s", o.name, why).in(name))
		}
	}
	if s.Options.PermissionMode == runnel.ModeBypass {
		return s, refused(wrong(s.Lines["permissionMode"], "permissionMode: a project cannot choose bypass; choose it for the session").in(name))
	}
	return s, nil
}

// Global parses a section of the server's configuration, such as options. path
// has the keys that lead to the section. If there is no such section, the
// source is empty. name is the name of the file in errors.
func Global(name string, data []byte, path ...string) (Source, error) {
	s := Source{From: FromGlobal, Name: name}
	root, err := settingsOf(data)
	for _, key := range path {
		root = child(root, key)
	}
	if err == nil && root != nil && root.Kind != yaml.MappingNode {
		err = wrong(root.Line, "%s: must be options, each as name: value, not %s", path[len(path)-1], kindOf(root))
	}
	if err == nil {
		err = s.decode(root)
	}
	if err != nil {
		return s, refused(err.in(name))
	}
	return s, nil
}

// settingsOf returns the settings in a file, or nil if there are none.
func settingsOf(data []byte) (*yaml.Node, *problem) {
	if at := invalidText(data); at >= 0 {
		return nil, wrong(lineOf(data, at), "is not text in UTF-8, or holds a NUL character; save it as UTF-8")
	}
	return parseYAML(data)
}

// child returns the value of a key of n, or nil if n has no such key.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// decode reads the options of a section into s.
func (s *Source) decode(root *yaml.Node) *problem {
	if root == nil {
		return nil
	}
	known := settings()
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	s.Lines = make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := slices.Index(names, key.Value)
		if at < 0 || key.Kind != yaml.ScalarNode {
			return wrong(key.Line, "%s", notInFiles(key.Value, names))
		}
		if first, twice := s.Lines[key.Value]; twice {
			return wrong(key.Line, "%s: is set in line %d already; remove one of them", key.Value, first)
		}
		s.Lines[key.Value] = key.Line
		if err := known[at].read(&s.Options, value); err != nil {
			err.why = key.Value + ": " + err.why
			return err
		}
	}
	return nil
}

// notInFiles returns the error text for a key that a file cannot have.
func notInFiles(key string, names []string) string {
	if slices.ContainsFunc(options, func(o option) bool { return o.name == key }) {
		return key + ": cannot be set in a file; give it to the session"
	}
	return unknownKey(key, names)
}

// refused returns the error for an invalid file of settings.
func refused(err error) error { return runnel.Fail(runnel.InvalidRequest, err.Error(), err) }

// readTools reads a list of tools, which must not be empty.
func readTools(n *yaml.Node, into *[]string) *problem {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		return wrong(n.Line, "is an empty list; name tools, or leave it out for the agent's own")
	}
	return readList(n, into, checkTool)
}

// readNumber reads a whole number of at least 1.
func readNumber(n *yaml.Node, into *int) *problem {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return wrong(n.Line, "must be a number, not %s", kindOf(n))
	}
	if err := n.Decode(into); err != nil || *into < 1 {
		return wrong(n.Line, "%s is not a number from 1 on", strconv.Quote(n.Value))
	}
	return nil
}

// readValues reads the agent's own settings.
func readValues(n *yaml.Node, into *runnel.Values) *problem {
	if n.Kind != yaml.MappingNode {
		return wrong(n.Line, "must be settings of the agent, each as id: value, not %s", kindOf(n))
	}
	out := make(runnel.Values)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
			return wrong(key.Line, "%s: must be one value", key.Value)
		}
		if _, twice := out[key.Value]; twice {
			return wrong(key.Line, "%s: is set twice; remove one of them", key.Value)
		}
		out[key.Value] = value.Value
	}
	*into = out
	return nil
}

// readBudget reads a budget. runnel.CheckOptions checks its bounds.
func readBudget(n *yaml.Node, into *runnel.Budget) *problem {
	if n.Kind != yaml.MappingNode {
		return wrong(n.Line, "must be bounds, such as usd: 5, not %s", kindOf(n))
	}
	given := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		to := map[string]any{"usd": &into.USD, "tokens": &into.Tokens, "minutes": &into.Minutes}[key.Value]
		switch {
		case to == nil:
			return wrong(key.Line, "%s", unknownKey(key.Value, []string{"usd", "tokens", "minutes"}))
		case given[key.Value]:
			return wrong(key.Line, "%s: is set twice; remove one of them", key.Value)
		case value.Kind != yaml.ScalarNode || value.Tag != "!!int" && value.Tag != "!!float" || value.Decode(to) != nil:
			return wrong(value.Line, "%s: must be a number", key.Value)
		}
		given[key.Value] = true
	}
	return nil
}

// readEgress reads what programs in a sandbox can reach.
func readEgress(n *yaml.Node, into *runnel.Egress) *problem {
	if n.Kind != yaml.MappingNode {
		return wrong(n.Line, "must be settings, such as allow, each as name: value, not %s", kindOf(n))
	}
	given := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if given[key.Value] {
			return wrong(key.Line, "%s: is set twice; remove one of them", key.Value)
		}
		given[key.Value] = true
		var err *problem
		switch key.Value {
		case "mode":
			err = readText(value, maxScalar, (*string)(&into.Mode))
		case "allow":
			err = readList(value, &into.Allow, anyText)
		case "sets":
			err = readList(value, &into.Sets, anyText)
		default:
			return wrong(key.Line, "%s", unknownKey(key.Value, []string{"mode", "allow", "sets"}))
		}
		if err != nil {
			err.why = key.Value + ": " + err.why
			return err
		}
	}
	return nil
}

// anyText accepts every entry of a list; runnel.CheckOptions checks them.
func anyText(string) string { return "" }

func checkPath(path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return strconv.Quote(path) + " is not an absolute path; ~ is not expanded"
}
