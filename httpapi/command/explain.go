package command

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// The bodies of the question what stored rules do with a call.
type (
	// ExplainRequest is a call, as an approval would show it.
	ExplainRequest struct {
		CLIType    string          `json:"cliType" doc:"the kind of agent"`
		ProjectDir string          `json:"projectDir,omitempty" doc:"folder of the session; for a credential of a project, default: that project"`
		Tool       string          `json:"tool" doc:"as the agent calls it, such as Bash"`
		Arguments  json.RawMessage `json:"arguments,omitempty" doc:"a JSON object of at most 64 KiB, such as {\"command\": \"git status\"}; at most 20 files. Default: an empty one"`
	}
	// ExplainAnswer is what stored rules do with a call, and why.
	ExplainAnswer struct {
		Decision rules.Outcome   `json:"decision" doc:"ask: a person decides, unless the profile of the session does"`
		Reason   string          `json:"reason"`
		Rule     int64           `json:"rule,omitempty" doc:"id of the rule that decides. Absent: none does"`
		Partial  bool            `json:"partial,omitempty" doc:"true: this credential sees only rules of its project, and others may decide"`
		Gates    []ExplainedGate `json:"gates" doc:"in the order in which a call passes them; the first that decides wins"`
		Rules    []ExplainedRule `json:"rules" doc:"that are about such a call, this tool or this folder: first those that deny, then those that allow, each oldest first"`
	}
	// ExplainedGate is what a gate does with a call.
	ExplainedGate struct {
		Gate    rules.GateName `json:"gate"`
		Decides bool           `json:"decides"`
		Reason  string         `json:"reason"`
	}
	// ExplainedRule is a rule, whether it matches a call, and why.
	ExplainedRule struct {
		Rule
		Match  rules.Match `json:"match" doc:"unclear: a rule that denies might match, so a person decides"`
		Reason string      `json:"reason"`
	}
)

// Explain returns what those rules of a list that the caller may know of do
// with a call.
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

// describedCall returns the call that a request describes. A caller that is
// bound to a project describes calls in its folders about files in there: the
// answer depends on where the links of other paths lead.
func describedCall(ctx context.Context, in ExplainRequest) (rules.Call, error) {
	own := access.Caller(ctx).Project
	dir := cmp.Or(in.ProjectDir, own)
	if own != "" && !rules.Within(dir, own) {
		return rules.Call{}, errNotAsked("projectDir", own)
	}
	c, err := rules.NewCall(in.CLIType, dir, in.Tool, in.Arguments)
	if err != nil {
		return c, reply.Invalid(err.Error())
	}
	if own == "" {
		return c, nil
	}
	if !rules.Within(c.Dir, own) { // after its links are resolved
		return c, errNotAsked("projectDir", own)
	}
	for _, file := range c.Files() {
		if !rules.Within(file, own) {
			return c, errNotAsked("arguments", own)
		}
	}
	return c, nil
}

func errNotAsked(field, own string) error {
	return runnel.Fail(runnel.Forbidden, field+": this credential is limited to folders and files of its own project: "+own)
}
