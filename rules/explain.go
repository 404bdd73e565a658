package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/store"
)

// Outcome is what the stored rules decide about a call.
type Outcome string

// The outcomes of a call.
const (
	OutcomeAllow Outcome = "allow"
	OutcomeDeny  Outcome = "deny"
	OutcomeAsk   Outcome = "ask" // a person decides, unless the session's profile does
)

// Match reports whether a rule matches a call.
type Match string

// The values of a match.
const (
	MatchYes     Match = "yes"
	MatchNo      Match = "no"
	MatchUnclear Match = "unclear" // only for deny rules: the rule might match, so a person decides
)

// GateName names a gate: one of the steps that can decide a call.
type GateName string

// The gates in the order in which a call passes them. The first gate that
// decides wins.
const (
	GateForbidden   GateName = "profile_forbids"
	GateDelegation  GateName = "delegation"
	GateDenyRules   GateName = "deny_rules"
	GateAutoApprove GateName = "profile_approves"
	GateAllowRules  GateName = "allow_rules"
	GatePerson      GateName = "person"
)

// An Explanation is what the stored rules decide about a call, and why.
type Explanation struct {
	Outcome Outcome
	Reason  string
	Rule    int64       // number of the rule that decides. Default: no rule decides
	Gates   []Gate      // all gates, in order
	Rules   []Explained // about such tools or sessions: deny rules, allow rules, then rules that this version does not understand
}

// A Gate reports whether one gate decides a call, and why.
type Gate struct {
	Name    GateName
	Decides bool
	Reason  string
}

// An Explained is one rule, whether it matches a call, and why.
type Explained struct {
	Rule   store.Rule
	Match  Match
	Reason string
}

// Bounds of a call that a client describes. Each path is resolved, and each
// rule about paths compares its folder with each path, so their number is
// bounded.
const (
	maxArguments = 64 << 10 // bytes
	maxPaths     = 20
)

// NewCall returns the call of an approval with these arguments. The folder must
// be absolute, without "..", and have at most 4,096 bytes. The arguments must
// be one JSON object of at most 64 KiB that names at most 20 files; absent
// arguments count as an empty object. NewCall returns an error that names the
// wrong field.
func NewCall(cliType, dir, tool string, arguments json.RawMessage) (Call, error) {
	c := Call{CLIType: cliType, Approval: event.Approval{Kind: event.ApprovalTool, ToolName: tool, Arguments: arguments}}
	if len(arguments) == 0 {
		c.Approval.Arguments = json.RawMessage("{}")
	}
	sum := sha256.Sum256(c.Approval.Arguments)
	c.Approval.ArgumentsDigest = hex.EncodeToString(sum[:])
	var object map[string]json.RawMessage
	switch {
	case cliType == "":
		return c, errors.New("cliType: is missing; give the kind of agent that makes the call")
	case tool == "":
		return c, errors.New("tool: is missing; name the tool as the agent calls it, such as Bash")
	case !shown(tool, maxName) || !shown(cliType, maxName):
		return c, fmt.Errorf("tool, cliType: at most %d bytes of printable text", maxName)
	case len(arguments) > maxArguments:
		return c, fmt.Errorf("arguments: at most %d bytes", maxArguments)
	}
	if err := strictjson.Check(c.Approval.Arguments); err != nil {
		return c, fmt.Errorf("arguments: %w", err)
	}
	if json.Unmarshal(c.Approval.Arguments, &object) != nil || object == nil {
		return c, errors.New(`arguments: want a JSON object, such as {"command": "git status"}`)
	}
	var err error
	if c.Dir, err = folder("projectDir", dir); err != nil {
		return c, err
	}
	if len(c.Files()) > maxPaths+1 {
		return c, fmt.Errorf("arguments: name at most %d files", maxPaths)
	}
	return c, nil
}

// Files returns the absolute paths of the folder in which a call runs and of
// the files that it names. Matching a rule resolves the links in these paths.
func (c Call) Files() []string {
	a := actionOf(c)
	files := []string{filepath.Clean(a.dir)}
	for _, path := range a.paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.dir, path)
		}
		files = append(files, filepath.Clean(path))
	}
	return files
}

// Explain returns what the rules decide about a call, as [Set.Denies] and then
// [Set.Allows] would, and why.
func (s *Set) Explain(c Call) Explanation {
	if c.Approval.Kind != event.ApprovalTool {
		return explained(nil, nil, "rules decide calls of tools only")
	}
	a := actionOf(c)
	script := parseScript(a.command)
	var deny, allow []Explained
	for _, r := range s.deny {
		match, why := no, r.elsewhere(c)
		if why == "" {
			match, why = r.denies(a, script)
		}
		if match != no || r.isAbout(a, c) {
			deny = append(deny, Explained{r.Rule, map[tri]Match{no: MatchNo, unknown: MatchUnclear, yes: MatchYes}[match], why})
		}
	}
	for _, r := range s.allow {
		match, why := false, r.elsewhere(c)
		if why == "" {
			match, why = r.allows(a)
		}
		if match || r.isAbout(a, c) {
			allow = append(allow, Explained{r.Rule, map[bool]Match{false: MatchNo, true: MatchYes}[match], why})
		}
	}
	e := explained(deny, allow, "")
	for _, r := range s.foreign {
		e.Rules = append(e.Rules, Explained{r, MatchNo, "this version of runnel cannot apply the rule"})
	}
	return e
}

// isAbout reports whether an explanation of the call lists the rule even if it
// does not match: the rule is for calls of this kind, for this tool or for
// sessions in this folder.
func (r compiled) isAbout(a *action, c Call) bool {
	return r.Kind == a.kind && (r.Kind != store.RuleTool || r.Tool == a.tool) || r.Tool == a.tool && r.Tool != "" ||
		r.ProjectDir != "" && subpath.Within(c.project(), r.ProjectDir)
}

// explained returns the explanation of a call from the matches of deny and
// allow rules, and sets the reasons of the rules that match. If none is not "",
// it says why rules cannot decide the call at all.
func explained(deny, allow []Explained, none string) Explanation {
	e := Explanation{Outcome: OutcomeAsk, Gates: []Gate{
		{Name: GateForbidden, Reason: "the profile of a session may forbid the tool; no session is considered here"},
		{Name: GateDelegation, Reason: "a session with governed delegation decides here about tools that start subagents; no session is considered here"},
		{Name: GateDenyRules, Reason: cmp.Or(none, "no rule denies the call")},
		{Name: GateAutoApprove, Reason: "the profile of a session may allow the tool; no session is considered here"},
		{Name: GateAllowRules, Reason: cmp.Or(none, "no rule allows the call")},
		{Name: GatePerson, Reason: "a person who may answer approvals is asked"},
	}}
	decide := func(gate int, outcome Outcome, rule int64, reason string) {
		e.Outcome, e.Rule, e.Reason = outcome, rule, reason
		e.Gates[gate].Decides, e.Gates[gate].Reason = true, reason
		for i := gate + 1; i < len(e.Gates); i++ {
			e.Gates[i].Reason = "is not reached"
		}
	}
	const denyGate, allowGate, personGate = 2, 4, 5
	switch denied, unclear, allowed := first(deny, MatchYes), first(deny, MatchUnclear), first(allow, MatchYes); {
	case denied != nil:
		decide(denyGate, OutcomeDeny, denied.Rule.ID, Explain(denied.Rule))
	case unclear != nil:
		decide(denyGate, OutcomeAsk, 0, "a rule that denies might match this call, so only a person may allow it")
	case allowed != nil:
		decide(allowGate, OutcomeAllow, allowed.Rule.ID, Explain(allowed.Rule))
	default:
		e.Reason, e.Gates[personGate].Decides = cmp.Or(none, "no rule decides the call"), true
	}
	e.Rules = slices.Concat(deny, allow)
	for i := range e.Rules {
		r := &e.Rules[i]
		switch {
		case r.Match != MatchYes:
		case r.Rule.ID == e.Rule:
			r.Reason = "matches, and decides"
		case r.Rule.Effect == store.EffectDeny || e.Outcome == OutcomeAllow:
			r.Reason = "matches, but an older rule decides"
		default:
			r.Reason = "matches, but rules that deny come first"
		}
	}
	return e
}

// first returns the first of rules whose match is m; nil if there is none.
func first(rules []Explained, m Match) *Explained {
	if i := slices.IndexFunc(rules, func(r Explained) bool { return r.Match == m }); i >= 0 {
		return &rules[i]
	}
	return nil
}
