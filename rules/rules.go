// Package rules matches stored rules against the tool calls of agents. It
// decides one call at a time and stores nothing. Its only access to the disk is
// to resolve links and compare files.
//
// An allow rule matches only a call that it understands completely: one simple
// command of literal words, a path after its links are resolved, one URL. A
// deny rule matches more widely. A person decides the calls that neither can
// judge.
package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/store"
)

// A Call is a tool call that needs an approval.
type Call struct {
	CLIType  string
	Dir      string // the directory that the agent works in, canonical
	Project  string // the session's project directory, canonical, if it is not Dir
	Copy     string // a folder that is a copy of Original, such as a git worktree; canonical. Default: none
	Original string // rules for paths in Original also apply to the same paths in Copy
	Approval event.Approval
}

// project returns the project directory of the call's session.
func (c Call) project() string { return cmp.Or(c.Project, c.Dir) }

// A Set is an immutable list of parsed rules. Its methods are safe for
// concurrent use.
type Set struct {
	deny, allow []compiled
	paths       []compiled   // of a kind with IsSandbox, which decide no calls
	foreign     []store.Rule // rules that this version does not understand
}

// compiled is a rule with its pattern parsed.
type compiled struct {
	store.Rule
	command commandPattern // only for RuleExecute
}

// NewSet parses a list of rules. A rule with a pattern or effect that this
// version does not understand denies nothing and allows nothing.
func NewSet(list []store.Rule) *Set {
	s := new(Set)
	for _, r := range list {
		c := compiled{Rule: r}
		if r.Kind == store.RuleExecute {
			var err error
			if c.command, err = parsePattern(r.Pattern); err != nil {
				s.foreign = append(s.foreign, r)
				continue
			}
		}
		switch {
		case r.Kind.IsSandbox() && r.Effect == store.EffectAllow && (r.SessionID != "" || r.ProjectDir != ""):
			s.paths = append(s.paths, c)
		case r.Kind.IsSandbox(), r.SessionID != "":
			s.foreign = append(s.foreign, r)
		case r.Effect == store.EffectDeny:
			s.deny = append(s.deny, c)
		case r.Effect == store.EffectAllow:
			s.allow = append(s.allow, c)
		default:
			s.foreign = append(s.foreign, r)
		}
	}
	return s
}

// Denies returns the first rule that denies the call. If no rule denies it, ask
// reports whether one might match a part of the call that is not understood. A
// person must then decide, even if another rule would allow the call.
func (s *Set) Denies(c Call) (rule store.Rule, denied, ask bool) {
	rules := slices.DeleteFunc(slices.Clone(s.deny), func(r compiled) bool { return !r.appliesTo(c) })
	if len(rules) == 0 || c.Approval.Kind != event.ApprovalTool {
		return rule, false, false
	}
	a := actionOf(c)
	script := parseScript(a.command)
	for _, r := range rules {
		switch match, _ := r.denies(a, script); match {
		case yes:
			return r.Rule, true, false
		case unknown:
			ask = true
		}
	}
	return rule, false, ask
}

// Allows returns the first rule that allows the call.
func (s *Set) Allows(c Call) (store.Rule, bool) {
	if c.Approval.Kind != event.ApprovalTool {
		return store.Rule{}, false
	}
	var a *action
	for _, r := range s.allow {
		if !r.appliesTo(c) {
			continue
		}
		if a == nil {
			a = actionOf(c)
		}
		if match, _ := r.allows(a); match {
			return r.Rule, true
		}
	}
	return store.Rule{}, false
}

// Matches reports whether a rule would decide the call if it were the only
// rule.
func Matches(r store.Rule, c Call) bool {
	set := NewSet([]store.Rule{r})
	if r.Effect == store.EffectDeny {
		_, denied, _ := set.Denies(c)
		return denied
	}
	_, allowed := set.Allows(c)
	return allowed
}

// appliesTo reports whether the rule is for the agent and the folder of the
// call's session.
func (r compiled) appliesTo(c Call) bool { return r.elsewhere(c) == "" }

// elsewhere returns why the rule is not for the call's session; "" if it is.
func (r compiled) elsewhere(c Call) string {
	switch {
	case r.CLIType != "" && r.CLIType != c.CLIType:
		return "is for another agent"
	case r.ProjectDir != "" && !subpath.Within(c.project(), r.ProjectDir):
		return "is for another folder"
	}
	return ""
}

// A tri is the result of matching a deny rule with a call.
type tri int

const (
	no tri = iota
	unknown
	yes
)

// allows reports whether a rule allows everything that the call does. If it
// does not, why is the reason.
func (r compiled) allows(a *action) (match bool, why string) {
	switch {
	case a.kind != r.Kind:
		return false, whyKind
	case r.Tool != "" && r.Tool != a.tool:
		return false, whyTool
	case !a.plain():
		return false, a.unclear
	}
	switch r.Kind {
	case store.RuleExecute:
		words, err := a.simpleCommand()
		if err != nil {
			return false, whyNotSimple(err)
		}
		if why := r.command.refuses(words); why != "" {
			return false, why
		}
		return r.ProjectDir == "" || a.within([]string{a.dir}, r.ProjectDir), "the command runs outside of the rule's folder"
	case store.RuleEdit, store.RuleRead:
		return a.within(a.paths, r.Pattern), "the call names a file outside of the rule's path, or one whose path cannot be resolved"
	case store.RuleFetch:
		host, err := hostOf(a.url)
		if err != nil {
			return false, whyNoHost
		}
		return hostMatches(r.Pattern, host), whyHost
	case store.RuleConnect:
		return connectionMatches(r.Pattern, a.host, a.port), whyConnection
	case store.RuleTool:
		return r.Tool != "" && whyUnstorable(r.Tool) == "", "no rule allows this tool as a whole"
	}
	return false, whyKind
}

// Reasons that several places give for a rule that does not match.
const (
	whyKind       = "is about another kind of call"
	whyTool       = "is for another tool"
	whyHost       = "the URL is of another host"
	whyConnection = "the connection is to another host or port"
	whyNoHost     = "the URL has no host that a rule can match"
	whyHidden     = "a part of the call is hidden, and may be what the rule denies"
)

// denies reports whether a rule denies any part of the call. If it does not, or
// if that is unknown, why is the reason. s is the parsed command of a.
func (r compiled) denies(a *action, s script) (match tri, why string) {
	ofAgent := r.Tool == event.ToolConnect && a.tool == event.ToolAgentConnect // denies the agent's tool of that name, too
	if r.Tool != "" && r.Tool != a.tool && !ofAgent {
		return no, whyTool
	}
	switch r.Kind {
	case store.RuleExecute:
		if a.command == "" && a.kind != store.RuleExecute {
			return no, whyKind
		}
		if match = r.command.denies(s); match == unknown {
			return unknown, "the command cannot be read completely, and may run what the rule denies"
		}
		return a.orUnsure(match, "no command of the call matches the rule")
	case store.RuleEdit, store.RuleRead:
		if a.kind == store.RuleTool && a.touches(r.Pattern) == yes {
			return unknown, "runnel does not know whether the tool edits or reads files, and the call names a path that the rule covers"
		}
		if a.kind != r.Kind {
			return no, whyKind
		}
		if match = a.touches(r.Pattern); match == unknown {
			return unknown, "a path of the call cannot be resolved, and may be one that the rule covers"
		}
		return a.orUnsure(match, "the call names no path that the rule covers")
	case store.RuleFetch:
		if a.url == "" {
			return no, whyKind
		}
		host, err := hostOf(a.url)
		switch {
		case err != nil:
			return unknown, whyNoHost
		case hostMatches(r.Pattern, host):
			return yes, ""
		}
		return a.orUnsure(no, whyHost)
	case store.RuleConnect:
		switch {
		case a.kind != store.RuleConnect:
			return no, whyKind
		case a.host == "":
			return unknown, a.unclear
		case connectionMatches(r.Pattern, a.host, a.port):
			return yes, ""
		}
		return a.orUnsure(no, whyConnection)
	case store.RuleTool:
		return yes, ""
	}
	return no, whyKind
}

// orUnsure returns match and why. If match is no but a part of the call is
// hidden, it returns unknown, because the hidden part might match.
func (a *action) orUnsure(match tri, why string) (tri, string) {
	if match == no && a.hidden {
		return unknown, whyHidden
	}
	return match, why
}

// Text returns what a rule does, for people.
func Text(r store.Rule) string {
	parts := []string{string(r.Effect), string(r.Kind), cmp.Or(r.Pattern, r.Tool)}
	if r.CLIType != "" {
		parts = append(parts, "with", r.CLIType)
	}
	if r.ProjectDir != "" {
		parts = append(parts, "in", r.ProjectDir)
	}
	if r.SessionID != "" {
		parts = append(parts, "for session", r.SessionID)
	}
	return strings.Join(parts, " ")
}

// Explain returns a text for people and agents that says which rule decided.
func Explain(r store.Rule) string {
	done := "allowed"
	if r.Effect == store.EffectDeny {
		done = "denied"
	}
	by := ""
	if r.ByName != "" {
		by = " by " + r.ByName
	}
	return fmt.Sprintf("%s by rule %d, made%s on %s", done, r.ID, by, r.CreatedAt.UTC().Format(time.DateOnly))
}
