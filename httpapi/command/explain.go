package command

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// Request and response bodies of Explain.
type (
	// ExplainRequest is a call, as an approval would show it.
	ExplainRequest struct {
		CLIType    string          `json:"cliType" doc:"Kind of agent, such as claude-code."`
		ProjectDir string          `json:"projectDir,omitempty" doc:"Directory of the session. Default for a credential that is limited to a project: that project."`
		Tool       string          `json:"tool" doc:"The agent's own name of the tool, such as Bash."`
		Arguments  json.RawMessage `json:"arguments,omitempty" doc:"The arguments of the call: a JSON object of at most 64 KiB that names at most 20 files, such as {\"command\": \"git status\"}. Default: an empty object."`
	}
	// ExplainAnswer is what stored rules do with a call, and why.
	ExplainAnswer struct {
		Decision rules.Outcome   `json:"decision" doc:"allow or deny: a rule decides. ask: a person decides, unless the session's profile does."`
		Reason   string          `json:"reason" doc:"Why, for people."`
		Rule     int64           `json:"rule,omitempty" doc:"Id of the rule that decides. Absent: no rule does."`
		Partial  bool            `json:"partial,omitempty" doc:"true: the credential is limited to a project, so rules that it cannot see may decide otherwise."`
		Gates    []ExplainedGate `json:"gates" doc:"The gates, in the order in which they are checked. The first gate that decides wins."`
		Rules    []ExplainedRule `json:"rules" doc:"The rules for such a call, this tool or this directory: rules that deny, then rules that allow, each oldest first."`
	}
	// ExplainedGate is what a gate does with a call.
	ExplainedGate struct {
		Gate    rules.GateName `json:"gate"`
		Decides bool           `json:"decides" doc:"Whether this gate decides the call."`
		Reason  string         `json:"reason" doc:"Why the gate decides or does not, for people."`
	}
	// ExplainedRule is a rule, whether it matches a call, and why.
	ExplainedRule struct {
		Rule
		Match  rules.Match `json:"match" doc:"unclear: a rule that denies might match, so a person decides."`
		Reason string      `json:"reason" doc:"Why the rule matches or does not, for people."`
	}
)

// Explain returns what the rules of a list do with a call. It considers only
// the rules that the caller may see.
func Explain(ctx context.Context, list []store.Rule, in ExplainRequest) (ExplainAnswer, error) {
	c, err := describedCall(ctx, in)
	if err != nil {
		return ExplainAnswer{}, err
	}
	var own []store.Rule
	for _, r := range list {
		if gateway.OwnRule(ctx, r) {
			own = append(own, r)
		}
	}
	e := rules.NewSet(own).Explain(c)
	out := ExplainAnswer{
		Decision: e.Outcome, Reason: e.Reason, Rule: e.Rule, Partial: access.Caller(ctx).Project != "",
		Gates: make([]ExplainedGate, len(e.Gates)), Rules: make([]ExplainedRule, len(e.Rules)),
	}
	for i, g := range e.Gates {
		out.Gates[i] = ExplainedGate{g.Name, g.Decides, g.Reason}
	}
	for i, r := range e.Rules {
		out.Rules[i] = ExplainedRule{RuleOf(r.Rule), r.Match, r.Reason}
	}
	return out, nil
}

// describedCall returns the call that a request describes. If the caller is
// bound to a project, the call's folder and files must be in that project.
// Otherwise the answer would reveal where links outside the project lead.
func describedCall(ctx context.Context, in ExplainRequest) (rules.Call, error) {
	own := access.Caller(ctx).Project
	dir := cmp.Or(in.ProjectDir, own)
	if own != "" && !subpath.Within(dir, own) {
		return rules.Call{}, errNotAsked("projectDir", own)
	}
	c, err := rules.NewCall(in.CLIType, dir, in.Tool, in.Arguments)
	if err != nil {
		return c, reply.Invalid(err.Error())
	}
	if own == "" {
		return c, nil
	}
	if !subpath.Within(c.Dir, own) { // after its links are resolved
		return c, errNotAsked("projectDir", own)
	}
	for _, file := range c.Files() {
		if !subpath.Within(file, own) {
			return c, errNotAsked("arguments", own)
		}
	}
	return c, nil
}

func errNotAsked(field, own string) error {
	return runnel.Fail(runnel.Forbidden, field+": this credential is limited to folders and files of its own project: "+own)
}
