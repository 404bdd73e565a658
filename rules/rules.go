// Package rules matches stored rules against what agents ask for. It decides
// about one call at a time and keeps nothing; reading links is its only contact
// with the disk.
//
// An allow rule matches only what it understands completely: one simple command
// of literal words, a path after its links are resolved, one URL. A deny rule
// matches more widely. What neither can judge is left to a person.
package rules

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Call is a call of a tool that an agent asks about.
type Call struct {
	CLIType  string
	Dir      string // the session's project directory, canonical
	Approval event.Approval
}

// A Set is a list of rules, ready to match. It does not change, and may be used
// from anywhere.
type Set struct{ deny, allow []compiled }

// compiled is a rule with its pattern parsed.
type compiled struct {
	store.Rule
	command commandPattern // of RuleExecute
}

// NewSet returns the set of rules. A rule with a pattern that this version does
// not understand denies nothing and allows nothing.
func NewSet(list []store.Rule) *Set {
	s := new(Set)
	for _, r := range list {
		c := compiled{Rule: r}
		if r.Kind == store.RuleExecute {
			var err error
			if c.command, err = parsePattern(r.Pattern); err != nil {
				continue
			}
		}
		if r.Effect == store.EffectDeny {
			s.deny = append(s.deny, c)
		} else if r.Effect == store.EffectAllow {
			s.allow = append(s.allow, c)
		}
	}
	return s
}

// Denies returns the first rule that denies the call. It reports ask if no rule
// does but one might, had the call been understood: then a person decides,
// whatever else would allow the call.
func (s *Set) Denies(c Call) (rule store.Rule, denied, ask bool) {
	rules := slices.DeleteFunc(slices.Clone(s.deny), func(r compiled) bool { return !r.appliesTo(c) })
	if len(rules) == 0 || c.Approval.Kind != event.ApprovalTool {
		return rule, false, false
	}
	a := actionOf(c)
	script := parseScript(a.command)
	for _, r := range rules {
		switch r.denies(a, script) {
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
		if r.allows(a) {
			return r.Rule, true
		}
	}
	return store.Rule{}, false
}

// Matches reports whether a rule decides the call, were it the only one.
func Matches(r store.Rule, c Call) bool {
	set := NewSet([]store.Rule{r})
	if r.Effect == store.EffectDeny {
		_, denied, _ := set.Denies(c)
		return denied
	}
	_, allowed := set.Allows(c)
	return allowed
}

// appliesTo reports whether the rule is for sessions like the call's.
func (r compiled) appliesTo(c Call) bool {
	return (r.CLIType == "" || r.CLIType == c.CLIType) && (r.ProjectDir == "" || Within(c.Dir, r.ProjectDir))
}

// Within reports whether path is dir or lies below it, by their names.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// tri is whether a deny rule matches a call.
type tri int

const (
	no tri = iota
	unknown
	yes
)

// allows reports whether a rule allows what the call does, all of it.
func (r compiled) allows(a *action) bool {
	if a.kind != r.Kind || !a.plain || r.Tool != "" && r.Tool != a.tool {
		return false
	}
	switch r.Kind {
	case store.RuleExecute:
		words, err := simpleCommand(a.command)
		if err != nil || !r.command.allows(words) {
			return false
		}
		return r.ProjectDir == "" || a.within([]string{a.dir}, r.ProjectDir)
	case store.RuleEdit, store.RuleRead:
		return a.within(a.paths, r.Pattern)
	case store.RuleFetch:
		host, err := hostOf(a.url)
		return err == nil && hostMatches(r.Pattern, host)
	case store.RuleTool:
		return r.Tool != "" && whyUnstorable(r.Tool) == ""
	}
	return false
}

// denies reports whether a rule denies a part of what the call does. script is
// a's command.
func (r compiled) denies(a *action, s script) tri {
	if r.Tool != "" && r.Tool != a.tool {
		return no
	}
	switch r.Kind {
	case store.RuleExecute:
		if a.command == "" && a.kind != store.RuleExecute {
			return no
		}
		return max(r.command.denies(s), a.unsure())
	case store.RuleEdit, store.RuleRead:
		if a.kind == store.RuleTool && a.touches(r.Pattern) == yes {
			return unknown
		}
		if a.kind != r.Kind {
			return no
		}
		return max(a.touches(r.Pattern), a.unsure())
	case store.RuleFetch:
		if a.url == "" {
			return no
		}
		host, err := hostOf(a.url)
		switch {
		case err != nil:
			return unknown
		case hostMatches(r.Pattern, host):
			return yes
		}
		return a.unsure()
	case store.RuleTool:
		return yes
	}
	return no
}

// unsure returns whether a rule that does not match what is shown might match
// what would run.
func (a *action) unsure() tri {
	if a.hidden {
		return unknown
	}
	return no
}

// Explain returns why a rule decided, for people and for the agent.
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
