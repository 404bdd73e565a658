package acp

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// opencode merges OPENCODE_PERMISSION into the permissions of the user's settings for
// all agents, where a key keeps its place, and then adds those of the settings for one
// agent (1.18.33). So a later key, such as "*", and the settings of an agent override
// what Runnel asks about or denies. Runnel therefore also adds its permissions behind the
// user's, to those for all agents and, in OPENCODE_CONFIG_CONTENT, to those of each agent
// that has its own. What the user denies stays denied.

const (
	opencodeContent = "OPENCODE_CONFIG_CONTENT"

	// namesOnly ends a key for the tools that the key without it names. opencode takes
	// a space and an asterisk at the end for nothing, too, so the key differs from the
	// user's one, and comes behind it.
	namesOnly = " *"

	actionAsk, actionDeny = "ask", "deny"

	// maxVariable bounds the bytes of a variable; Linux permits 128 KiB.
	maxVariable = 120 << 10
)

// opencodeInPlan are the permissions of the agent plan, whatever the mode in which the
// session began. By itself, it changes no files; OPENCODE_PERMISSION would permit that.
var opencodeInPlan = permissions{
	{tools: serversTools, rules: []permissionRule{{anyCall, actionAsk}}},
	plainRule("bash", actionAsk), plainRule("edit", actionDeny), plainRule("task", actionDeny), plainRule("webfetch", actionAsk),
}

// opencodeFloors returns env, changed so that what OPENCODE_PERMISSION asks about or
// denies, each agent of opencode asks about or denies.
func opencodeFloors(env []string, opt runnel.Options) ([]string, error) {
	const name = "OPENCODE_PERMISSION"
	var given permissions
	content := ""
	for _, e := range env {
		if value, ok := variable(e, name); ok {
			given = permissionsIn(json.RawMessage(value))
		}
		if value, ok := variable(e, opencodeContent); ok {
			content = value
		}
	}
	plain := withoutTrailingCommas(withoutComments([]byte(content)))
	var object map[string]json.RawMessage
	if content != "" && (json.Unmarshal(plain, &object) != nil || object == nil) {
		return nil, runnel.Fail(runnel.SessionCreateFailed, opencodeContent+" is not a JSON object, so Runnel cannot add the permissions of the session to it. Correct it, or remove it.")
	}
	own, floors := readOpencodeOwn(env, opt), given
	if own.unread != "" {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "Runnel cannot read all of "+text.OneLine(own.unread, 500)+", which can have permissions of opencode, because it is too large. Make it smaller.")
	}
	if opt.PermissionMode == runnel.ModeAcceptEdits {
		floors = strictest(floors, permissions{{tools: "edit", rules: own.askedEdits(runtime.GOOS == "darwin" || ignoresCase(opt.Dir))}})
	}
	floors = strict(floors)
	ofAll := given.merge(behind(floors, own.ofAll())).json()
	config := members(plain)
	agents, modes := objectIn(config, "agent"), objectIn(config, "mode")
	named := slices.Concat([]string{"build", "plan"}, own.names()) // settings of an organisation can have build and plan, too
	slices.Sort(named)
	for _, agent := range slices.Compact(named) {
		least := floors
		if agent == "plan" {
			least = strictest(least, opencodeInPlan)
		}
		add := behind(least, own.of(agent))
		if len(add) == 0 {
			continue
		}
		// Modes come behind agents. A mode cannot be a subagent.
		if _, isMode := own.modes[agent]; isMode || agent == "build" || agent == "plan" {
			modes = withPermissions(modes, agent, add)
		} else {
			agents = withPermissions(agents, agent, add)
		}
	}
	all := objectOf(setMember(setMember(config, "agent", objectOf(agents)), "mode", objectOf(modes)))
	if max(len(all), len(ofAll)) > maxVariable {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "Your settings of opencode deny tools by too many rules, which Runnel repeats for each agent that they define. Define fewer agents with permissions, or fewer rules.")
	}
	return agentconn.SetVariable(agentconn.SetVariable(env, name, string(ofAll)), opencodeContent, string(all)), nil
}

// askedEdits returns rules that ask before edits outside of the repository, and of
// protectedPaths. By itself, opencode does not ask where it found skills of the user,
// which may contain programs. It compares a pattern with the path of the file from the
// root of the repository, or from the root of the file system if there is no repository
// (1.18.33). An asterisk matches any characters, including slashes, or none.
//
// Some file systems ignore the case of names, usually those of macOS, but patterns do
// not. There, the rules ask before edits of all hidden files.
func (o *opencodeOwn) askedEdits(anyCase bool) []permissionRule {
	fromRoot := func(dir string) string { return strings.TrimPrefix(filepath.ToSlash(dir), "/") }
	rules := []permissionRule{{"../*", actionAsk}, {fromRoot(o.home) + "/.*", actionAsk}, {fromRoot(o.config) + "/*", actionAsk}}
	if anyCase {
		rules = append(rules, permissionRule{".*", actionAsk}, permissionRule{"*/.*", actionAsk})
	}
	for _, name := range protectedPaths {
		if strings.HasSuffix(name, "/") {
			name += "*"
		}
		if !anyCase || name[0] != '.' {
			rules = append(rules, permissionRule{"*" + name, actionAsk})
		}
	}
	return rules
}

// strict returns the rules that ask or deny.
func strict(p permissions) (out permissions) {
	for _, t := range p {
		t.rules = slices.DeleteFunc(slices.Clone(t.rules), func(r permissionRule) bool { return r.action != actionAsk && r.action != actionDeny })
		if len(t.rules) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// strictest returns the stricter rules of p and q for each key of q, and the other
// rules of p.
func strictest(p, q permissions) permissions {
	p = slices.Clone(p)
	for _, t := range q {
		i := slices.IndexFunc(p, func(o toolRules) bool { return o.tools == t.tools })
		switch {
		case i < 0 && t.tools == serversTools: // tools that are denied by name come behind it
			p = slices.Insert(p, 0, t)
		case i < 0:
			p = append(p, t)
		case t.rules[0].action == actionDeny || !denies(p[i], t.rules[0].pattern):
			p[i] = t
		}
	}
	return p
}

// denies reports whether the rules deny a call with a text.
func denies(t toolRules, text string) bool {
	action := ""
	for _, r := range t.rules {
		if matches(text, r.pattern) {
			action = r.action
		}
	}
	return action == actionDeny
}

// behind returns the permissions to be added behind those in own, so that the result
// is at least as strict as least and as what own denies. The tools of MCP servers,
// whose names are unknown, come first.
func behind(least, own permissions) (out permissions) {
	exact := func(tools string) bool {
		return slices.ContainsFunc(least, func(t toolRules) bool { return t.tools == tools })
	}
	for _, t := range least {
		if t.tools == serversTools {
			out = append(out, toolRules{tools: lastKey(t.tools, own), rules: t.rules})
			if t.rules[0].action == actionAsk {
				out = append(out, deniedServers(own, exact)...)
			}
		}
	}
	for _, wide := range []bool{true, false} { // a tool that is denied by its name stays denied
		for _, t := range least {
			name, isWide := strings.CutSuffix(t.tools, "*")
			if t.tools == serversTools || isWide != wide {
				continue
			}
			rules := t.rules
			if !denies(t, "*") || len(rules) > 1 {
				rules = slices.Concat(rules, fromFirstDenial(own, name))
			}
			out = append(out, toolRules{tools: lastKey(t.tools, own), rules: lastOfEach(rules)})
		}
	}
	return out
}

// lastKey returns a key for the tools that own does not have, because opencode would
// leave it at the place of the user's one. It may also match other tools then.
func lastKey(tools string, own permissions) string {
	key := tools + namesOnly
	for i := len(tools) - 1; i >= 0 && slices.ContainsFunc(own, func(t toolRules) bool { return t.tools == key }); i-- {
		key = tools[:i] + strings.Repeat("?", len(tools)-i) + namesOnly
	}
	return key
}

// fromFirstDenial returns the rules for a tool, from the first one that denies. Calls
// that later rules allow are asked about.
func fromFirstDenial(own permissions, tool string) (out []permissionRule) {
	for _, t := range own {
		if !matches(tool, t.tools) {
			continue
		}
		for _, r := range t.rules {
			switch {
			case r.action == actionDeny:
				out = append(out, r)
			case len(out) > 0:
				out = append(out, permissionRule{r.pattern, actionAsk})
			}
		}
	}
	return out
}

// deniedServers returns the permissions in own from the first one that denies tools of
// MCP servers, changed so that calls of these tools which it allows are asked about. It
// omits the tools that has reports.
func deniedServers(own permissions, has func(tools string) bool) (out permissions) {
	for _, t := range own {
		servers := strings.ContainsAny(t.tools, "_*?")
		if has(t.tools) || len(out) == 0 && (!servers || !denies(t, "*")) {
			continue
		}
		rules := slices.Clone(t.rules)
		if servers && !denies(t, "*") {
			rules = append(rules, permissionRule{anyCall, actionAsk})
		}
		key := t.tools + namesOnly
		if i := slices.IndexFunc(out, func(o toolRules) bool { return o.tools == key }); i >= 0 {
			rules = slices.Concat(out[i].rules, rules)
			out = slices.Delete(out, i, i+1)
		}
		out = append(out, toolRules{tools: key, rules: lastOfEach(rules)})
	}
	return out
}

// lastOfEach returns the rules without those that a later one with the same pattern
// replaces.
func lastOfEach(rules []permissionRule) (out []permissionRule) {
	for i, r := range rules {
		if !slices.ContainsFunc(rules[i+1:], func(o permissionRule) bool { return o.pattern == r.pattern }) {
			out = append(out, r)
		}
	}
	return out
}

// matches reports whether text matches a pattern, as opencode decides it.
func matches(text, pattern string) bool {
	expr := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(strings.ReplaceAll(pattern, `\`, "/")))
	if rest, ok := strings.CutSuffix(expr, " .*"); ok {
		expr = rest + "( .*)?"
	}
	re, err := regexp.Compile("(?s)^" + expr + "$")
	return err != nil || re.MatchString(strings.ReplaceAll(text, `\`, "/"))
}

// withPermissions returns the members of "agent" or "mode", with permissions added
// behind those of one of them.
func withPermissions(list []member, agent string, add permissions) []member {
	of := objectIn(list, agent)
	var given json.RawMessage
	for _, m := range of {
		if m.name == "permission" {
			given = m.value
		}
	}
	return setMember(list, agent, objectOf(setMember(of, "permission", permissionsIn(given).merge(add).json())))
}

// json returns the permissions as the value of a key "permission".
func (p permissions) json() json.RawMessage {
	var list []member
	for _, t := range p {
		var rules []member
		for _, r := range t.rules {
			rules = append(rules, member{r.pattern, translate.Object(r.action)})
		}
		value := objectOf(rules)
		if t.plain { // some tools take no patterns
			value = rules[0].value
		}
		list = append(list, member{t.tools, value})
	}
	return objectOf(list)
}

// objectIn returns the members of a member that is an object.
func objectIn(list []member, name string) (out []member) {
	for _, m := range list {
		if m.name == name {
			out = members(m.value)
		}
	}
	return out
}

// setMember returns the members with one that is replaced, or added at the end.
func setMember(list []member, name string, value json.RawMessage) []member {
	list = slices.DeleteFunc(slices.Clone(list), func(m member) bool { return m.name == name })
	return append(list, member{name, value})
}
