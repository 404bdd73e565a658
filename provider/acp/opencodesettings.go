package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
)

// The permissions in the user's settings of opencode, and, in a trusted folder, in
// those of the project. The order of keys matters: of the permissions that match a
// call, opencode obeys the last one (1.18.33).

// A permissionRule is what happens to the calls of a tool whose text matches.
type permissionRule struct{ pattern, action string }

// toolRules are the rules for the tools whose names match.
type toolRules struct {
	tools string
	rules []permissionRule
	plain bool // one action without a pattern, which replaces all others of the same key
}

// permissions are the rules of an object of opencode's settings, in its order.
type permissions []toolRules

// merge returns p, changed by later settings. A key keeps its place.
func (p permissions) merge(later permissions) permissions {
	p = slices.Clone(p)
	for _, t := range later {
		i := slices.IndexFunc(p, func(o toolRules) bool { return o.tools == t.tools })
		switch {
		case i < 0:
			p = append(p, t)
		case p[i].plain || t.plain:
			p[i] = t
		default:
			p[i].rules = mergeRules(p[i].rules, t.rules)
		}
	}
	return p
}

func mergeRules(rules, later []permissionRule) []permissionRule {
	rules = slices.Clone(rules)
	for _, r := range later {
		if i := slices.IndexFunc(rules, func(o permissionRule) bool { return o.pattern == r.pattern }); i >= 0 {
			rules[i] = r
		} else {
			rules = append(rules, r)
		}
	}
	return rules
}

// A member is one of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object in their order, up to the first
// error.
func members(raw json.RawMessage) (out []member) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			break
		}
		out = append(out, member{name, value})
	}
	return out
}

// permissionsIn returns the permissions in the value of a key "permission".
func permissionsIn(raw json.RawMessage) (p permissions) {
	var action string
	if json.Unmarshal(raw, &action) == nil && action != "" {
		return permissions{plainRule("*", action)}
	}
	for _, m := range members(raw) {
		t := toolRules{tools: m.name}
		if json.Unmarshal(m.value, &action) == nil {
			t = plainRule(m.name, action)
		}
		for _, of := range members(m.value) {
			if json.Unmarshal(of.value, &action) == nil {
				t.rules = mergeRules(t.rules, []permissionRule{{of.name, action}})
			}
		}
		p = p.merge(permissions{t})
	}
	return p
}

func plainRule(tools, action string) toolRules {
	return toolRules{tools: tools, rules: []permissionRule{{"*", action}}, plain: true}
}

// toolsIn returns the permissions in the value of a key "tools".
func toolsIn(raw json.RawMessage) (p permissions) {
	for _, m := range members(raw) {
		action := "deny"
		if string(m.value) == "true" {
			action = "allow"
		}
		p = p.merge(permissions{plainRule(opencodeRule(m.name), action)})
	}
	return p
}

// opencodeOwn are the permissions of all settings that opencode reads.
type opencodeOwn struct {
	home, config      string // the user's folders
	tools, permission permissions
	agents, modes     map[string]permissions
	unread            string // a path that is too large to be read
	vars              map[string]string
}

// of returns the permissions of one agent: those for all, then its own.
func (o *opencodeOwn) of(agent string) permissions {
	return slices.Concat(o.ofAll(), o.agents[agent].merge(o.modes[agent]))
}

// ofAll returns the permissions for all agents.
func (o *opencodeOwn) ofAll() permissions { return o.tools.merge(o.permission) }

// add adds the settings in a file of dir, which may have comments, trailing commas,
// and names of variables and files.
func (o *opencodeOwn) add(text []byte, dir string) {
	for _, m := range members(withoutTrailingCommas(withoutComments(o.substitute(text, dir)))) {
		switch m.name {
		case "permission":
			o.permission = o.permission.merge(permissionsIn(m.value))
		case "tools":
			o.tools = o.tools.merge(toolsIn(m.value))
		case "agent":
			addAgents(o.agents, m.value)
		case "mode":
			addAgents(o.modes, m.value)
		}
	}
}

func addAgents(to map[string]permissions, raw json.RawMessage) {
	for _, m := range members(raw) {
		to[m.name] = to[m.name].merge(agentPermissions(m.value))
	}
}

func agentPermissions(raw json.RawMessage) permissions {
	var tools, permission permissions
	for _, m := range members(raw) {
		switch m.name {
		case "permission":
			permission = permissionsIn(m.value)
		case "tools":
			tools = toolsIn(m.value)
		}
	}
	return tools.merge(permission)
}

// withoutTrailingCommas returns JSON without commas that no value follows.
func withoutTrailingCommas(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i, quoted := 0, false; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\' && i+1 < len(b):
			out = append(out, b[i])
			i++
		case b[i] == '"':
			quoted = !quoted
		case !quoted && b[i] == ',':
			if rest := bytes.TrimLeft(b[i+1:], " \t\r\n"); len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

// readOpencodeOwn reads the settings that opencode reads, in the order in which it
// does.
func readOpencodeOwn(env []string, opt runnel.Options) *opencodeOwn {
	vars := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	home := cmp.Or(vars["HOME"], userHome())
	config := filepath.Join(cmp.Or(vars["XDG_CONFIG_HOME"], filepath.Join(home, ".config")), "opencode")
	o := &opencodeOwn{home: home, config: config, agents: map[string]permissions{}, modes: map[string]permissions{}, vars: vars}
	files := func(dir string, names ...string) {
		for _, path := range below(dir, names...) {
			if text, ok := o.read(path); ok {
				o.add(text, dir)
			}
		}
	}
	files(config, "config.json", "opencode.json", "opencode.jsonc")
	if path := vars["OPENCODE_CONFIG"]; path != "" {
		files(filepath.Dir(path), filepath.Base(path))
	}
	dirs := []string{config}
	if off := strings.ToLower(vars["OPENCODE_DISABLE_PROJECT_CONFIG"]); off != "1" && off != "true" {
		above := foldersOfProject(opt.Dir)
		for _, dir := range slices.Backward(above) {
			files(dir, "opencode.json", "opencode.jsonc")
		}
		for _, dir := range above {
			dirs = append(dirs, filepath.Join(dir, ".opencode"))
		}
	}
	dirs = append(dirs, filepath.Join(home, ".opencode"))
	if dir := vars["OPENCODE_CONFIG_DIR"]; dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range slices.Compact(dirs) {
		if dir != config {
			files(dir, "opencode.json", "opencode.jsonc")
		}
		o.addMarkdown(dir)
	}
	o.add([]byte(vars[opencodeContent]), opt.Dir)
	files(opencodeManaged(), "opencode.json", "opencode.jsonc")
	return o
}

// read returns the text of a file that exists.
func (o *opencodeOwn) read(path string) ([]byte, bool) {
	text, err := readPlain(path)
	if st, found := os.Stat(path); err != nil && found == nil && st.Size() > maxSettings {
		o.unread = path
	}
	return text, err == nil
}

var (
	namedVariable = regexp.MustCompile(`\{env:([^}]+)\}`)
	namedFile     = regexp.MustCompile(`\{file:([^}]+)\}`)
)

// substitute replaces the names of variables and of files by what they contain, as
// opencode does before it reads settings.
func (o *opencodeOwn) substitute(text []byte, dir string) []byte {
	text = namedVariable.ReplaceAllFunc(text, func(m []byte) []byte { return []byte(o.vars[string(m[len("{env:"):len(m)-1])]) })
	return namedFile.ReplaceAllFunc(text, func(m []byte) []byte {
		path := string(m[len("{file:") : len(m)-1])
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(o.home, rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		content, _ := o.read(path)
		quoted, _ := json.Marshal(string(bytes.TrimSpace(content))) // cannot fail: a string
		return quoted[1 : len(quoted)-1]
	})
}

// opencodeManaged returns the folder of the settings of an administrator.
func opencodeManaged() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/opencode"
	case "windows":
		return filepath.Join(cmp.Or(os.Getenv("ProgramData"), `C:\ProgramData`), "opencode")
	}
	return "/etc/opencode"
}

// foldersOfProject returns the folders whose settings opencode reads: dir and those
// above it, up to the root of the repository, if there is one.
func foldersOfProject(dir string) (out []string) {
	if dir == "" {
		dir, _ = os.Getwd() // on failure, the handshake fails too
	}
	root := repository(dir)
	if _, err := os.Lstat(filepath.Join(root, ".git")); err != nil {
		root = ""
	}
	for at := dir; at != ""; {
		out = append(out, at)
		up := filepath.Dir(at)
		if at == root || up == at {
			break
		}
		at = up
	}
	return out
}

// objectOf returns a JSON object with members in this order.
func objectOf(list []member) json.RawMessage {
	out := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(m.name) // cannot fail: a string
		out = append(append(append(out, name...), ':'), m.value...)
	}
	return append(out, '}')
}

// names returns the agents for which the settings have permissions.
func (o *opencodeOwn) names() []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, of := range []map[string]permissions{o.agents, o.modes} {
			for name, own := range of {
				if len(own) > 0 && !yield(name) {
					return
				}
			}
		}
	}))
}
