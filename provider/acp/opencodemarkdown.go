package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxMarkdown bounds the entries in folders of agents that are examined.
const maxMarkdown = 10000

// addMarkdown adds the agents and modes that Markdown files in a folder define.
func (o *opencodeOwn) addMarkdown(dir string) {
	for _, of := range []struct {
		folder string
		to     map[string]permissions
		deep   bool // also in folders below it
	}{{"agent", o.agents, true}, {"agents", o.agents, true}, {"mode", o.modes, false}, {"modes", o.modes, false}} {
		w := markdownWalk{own: o, to: of.to, deep: of.deep}
		w.folder(filepath.Join(dir, of.folder), "", nil)
	}
}

// A markdownWalk examines a folder as opencode does, which follows links.
type markdownWalk struct {
	own  *opencodeOwn
	to   map[string]permissions
	deep bool
	seen int // entries
}

// folder adds the files in dir. prefix begins their names, and above are the folders
// that dir is in, by their real paths.
func (w *markdownWalk) folder(dir, prefix string, above []string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || slices.Contains(above, real) {
		return
	}
	entries, _ := os.ReadDir(real) // on failure, opencode reads none either
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if w.seen++; w.seen > maxMarkdown {
			w.own.unread = dir
			return
		}
		st, err := os.Stat(path)
		switch name, isMarkdown := strings.CutSuffix(prefix+e.Name(), ".md"); {
		case err != nil:
		case st.IsDir():
			if w.deep {
				w.folder(path, prefix+e.Name()+"/", append(slices.Clone(above), real))
			}
		case isMarkdown:
			text, _ := w.own.read(path)
			name, p := markdownAgent(name, text)
			w.to[name] = w.to[name].merge(p)
		}
	}
}

// unknown stands for the permissions in a file that Runnel cannot read as opencode does.
var unknown = permissions{plainRule("*", "allow")}

// markdownAgent returns the name and the permissions of the agent that a Markdown
// file defines. name is that of the file.
func markdownAgent(name string, text []byte) (string, permissions) {
	text, ok := bytes.CutPrefix(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("---"))
	if !ok || bytes.HasPrefix(text, []byte("-")) {
		return name, nil
	}
	language, settings, _ := bytes.Cut(text, []byte("\n"))
	settings, _, _ = bytes.Cut(append([]byte("\n"), settings...), []byte("\n---")) // without an end, it is all of the file
	var raw json.RawMessage
	switch string(bytes.ToLower(bytes.TrimSpace(language))) {
	case "json":
		raw = settings
	case "", "yaml", "yml":
		if raw = fromYAML(settings); raw == nil {
			return name, unknown
		}
	default: // such as a program
		return name, unknown
	}
	for _, m := range members(raw) {
		var given string
		if m.name == "name" && json.Unmarshal(m.value, &given) == nil && given != "" {
			name = given
		}
	}
	return name, agentPermissions(raw)
}

// colons matches a line of YAML with a colon in its value. If the YAML is invalid,
// opencode reads such values as texts and tries again.
var colons = regexp.MustCompile(`(?m)^([a-zA-Z_][a-zA-Z0-9_]*)\s*:[ \t]*([^"'\s].*:.*)$`)

// fromYAML returns YAML as JSON; nil if it cannot be read.
func fromYAML(text []byte) json.RawMessage {
	for _, text := range [][]byte{text, colons.ReplaceAll(text, []byte("$1: |-\n  $2"))} {
		var doc yaml.Node
		if yaml.Unmarshal(text, &doc) != nil {
			continue
		}
		if len(doc.Content) == 0 {
			return json.RawMessage("{}")
		}
		left := maxNodes
		if raw := jsonOf(doc.Content[0], &left); left > 0 {
			return raw
		}
	}
	return nil
}

// maxNodes bounds the values of a file, because references can multiply them.
const maxNodes = 10000

// jsonOf returns a YAML value as JSON, with the members of objects in their order.
// It returns null for lists, which permissions do not have. It reduces left by the
// number of values, and stops at zero.
func jsonOf(n *yaml.Node, left *int) json.RawMessage {
	var value any
	if *left--; *left <= 0 {
		*left = 0
		return json.RawMessage("null")
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return jsonOf(n.Alias, left)
	case n.Kind == yaml.MappingNode:
		var list, merged []member
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, of := n.Content[i], n.Content[i+1]
			if key.Tag != "!!merge" {
				list = setMember(list, key.Value, jsonOf(of, left))
				continue
			}
			from := []*yaml.Node{of}
			if of.Kind == yaml.SequenceNode {
				from = of.Content
			}
			for _, f := range from {
				merged = append(merged, members(jsonOf(f, left))...)
			}
		}
		for _, m := range merged { // what the object has itself counts
			if !slices.ContainsFunc(list, func(o member) bool { return o.name == m.name }) {
				list = append(list, m)
			}
		}
		return objectOf(list)
	case n.Kind != yaml.ScalarNode || n.Decode(&value) != nil:
		return json.RawMessage("null")
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
