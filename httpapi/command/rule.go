package command

import (
	"cmp"
	"net/http"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Request and response bodies about rules.
type (
	// RuleRequest is a rule to store.
	RuleRequest struct {
		Effect     store.Effect   `json:"effect,omitempty" required:"false" doc:"with a decision, default: that of the choice"`
		Kind       store.RuleKind `json:"kind"`
		CLIType    string         `json:"cliType,omitempty" doc:"the kind of agent. Default: all"`
		ProjectDir string         `json:"projectDir,omitempty" doc:"for sessions in this folder and below. Default: all"`
		Tool       string         `json:"tool,omitempty" doc:"as the agent calls it; required for kind tool. Default: all tools of the kind"`
		Pattern    string         `json:"pattern,omitempty" doc:"execute: a command, or its first words and *; edit, read: a file, or a folder with all below it; fetch: a host, or *. and a domain; tool: none"`
		Note       string         `json:"note,omitempty"`
	}
	// Rule is a stored rule.
	Rule struct {
		ID int64 `json:"id" doc:"never used again for another rule"`
		RuleFields
		By         string     `json:"by" doc:"name of the credential that made it"`
		CreatedAt  time.Time  `json:"createdAt"`
		Uses       int64      `json:"uses" doc:"how many approvals it has decided"`
		LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	}
	// RuleFields are the fields of a rule that a client can choose.
	RuleFields struct {
		Effect     store.Effect   `json:"effect"`
		Kind       store.RuleKind `json:"kind"`
		CLIType    string         `json:"cliType,omitempty" doc:"absent: for all agents"`
		ProjectDir string         `json:"projectDir,omitempty" doc:"absent: for all folders"`
		Tool       string         `json:"tool,omitempty"`
		Pattern    string         `json:"pattern,omitempty"`
		Note       string         `json:"note,omitempty"`
	}
	// DecideAnswer is the result of [Commands.Decide].
	DecideAnswer struct {
		Rule *Rule `json:"rule,omitempty" doc:"that was stored because of remember"`
	}
	// ApprovalAnswer is a pending approval.
	ApprovalAnswer struct {
		Approval       event.Approval `json:"approval"`
		SuggestedRules []RuleFields   `json:"suggestedRules" doc:"rules that would allow calls like this one, the narrowest first; for remember"`
	}
)

// RuleOf returns a stored rule as clients see it.
func RuleOf(r store.Rule) Rule {
	out := Rule{ID: r.ID, RuleFields: fieldsOf(r), By: r.ByName, CreatedAt: r.CreatedAt, Uses: r.Uses}
	if !r.LastUsedAt.IsZero() {
		out.LastUsedAt = &r.LastUsedAt
	}
	return out
}

func fieldsOf(r store.Rule) RuleFields {
	return RuleFields{r.Effect, r.Kind, r.CLIType, r.ProjectDir, r.Tool, r.Pattern, r.Note}
}

// RuleBy returns the rule that a caller wants to store. The rule of a caller
// that is bound to a project is for that project, unless it names a folder.
func RuleBy(caller auth.Identity, in RuleRequest) store.Rule {
	return store.Rule{
		Effect: in.Effect, Kind: in.Kind, CLIType: in.CLIType, ProjectDir: cmp.Or(in.ProjectDir, caller.Project), Tool: in.Tool,
		Pattern: in.Pattern, Note: in.Note, By: caller.ID, ByName: caller.Name,
	}
}

// Approval returns a pending approval, with rules that would answer requests
// like it.
func (c Commands) Approval(r *http.Request, id, approval string) (ApprovalAnswer, error) {
	id, err := c.Sessions.Mine(r.Context(), id)
	if err != nil {
		return ApprovalAnswer{}, err
	}
	open, err := c.Sessions.Gateway.Approvals().Open(r.Context(), id, approval)
	out := ApprovalAnswer{Approval: open.Approval, SuggestedRules: []RuleFields{}}
	for _, s := range open.Suggested {
		out.SuggestedRules = append(out.SuggestedRules, fieldsOf(s))
	}
	return out, err
}
