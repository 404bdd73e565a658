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
		Effect     store.Effect   `json:"effect,omitempty" required:"false" doc:"Whether the rule allows or denies. Required, except in remember, where the default is the effect of the choice."`
		Kind       store.RuleKind `json:"kind"`
		CLIType    string         `json:"cliType,omitempty" doc:"Kind of agent that the rule applies to. Default: all kinds."`
		ProjectDir string         `json:"projectDir,omitempty" doc:"Directory of the sessions that the rule applies to, including its subdirectories. Default: all directories."`
		SessionID  string         `json:"sessionId,omitempty" doc:"Id of the only session that the rule applies to, for kind sandbox_read and sandbox_write. Default: all sessions of projectDir, which these kinds then require."`
		Tool       string         `json:"tool,omitempty" doc:"The agent's own name of the tool. Required if kind is tool. Default: all tools of the kind."`
		Pattern    string         `json:"pattern,omitempty" doc:"What a call must match. For execute: a command, or its first words followed by *. For edit and read: a file, or a directory, which includes everything in it. For fetch: a host, or *. followed by a domain. For connect: the same, with an optional port (default: 443 and 80). For tool: no pattern. For sandbox_read and sandbox_write: a file or a directory outside of the project that programs in a sandbox can read, or read and write."`
		Note       string         `json:"note,omitempty" doc:"Note for people, at most 500 bytes."`
	}
	// Rule is a stored rule.
	Rule struct {
		ID int64 `json:"id" doc:"Id of the rule. The ids of deleted rules are not reused."`
		RuleFields
		By         string     `json:"by" doc:"Name of the credential that created the rule."`
		CreatedAt  time.Time  `json:"createdAt" doc:"When the rule was stored."`
		Uses       int64      `json:"uses" doc:"Number of approvals that the rule has decided. Always 0 for kind sandbox_read and sandbox_write."`
		LastUsedAt *time.Time `json:"lastUsedAt,omitempty" doc:"When the rule last decided an approval. Absent: never."`
	}
	// RuleFields are the fields of a rule that a client can choose.
	RuleFields struct {
		Effect     store.Effect   `json:"effect"`
		Kind       store.RuleKind `json:"kind"`
		CLIType    string         `json:"cliType,omitempty" doc:"Kind of agent that the rule applies to. Absent: all kinds."`
		ProjectDir string         `json:"projectDir,omitempty" doc:"Directory of the sessions that the rule applies to, including its subdirectories. Absent: all directories."`
		SessionID  string         `json:"sessionId,omitempty" doc:"Id of the only session that the rule applies to. Absent: all sessions of projectDir."`
		Tool       string         `json:"tool,omitempty" doc:"The agent's own name of the tool. Absent: all tools of the kind."`
		Pattern    string         `json:"pattern,omitempty" doc:"What a call must match, in the form of RuleRequest.pattern. Absent for kind tool."`
		Note       string         `json:"note,omitempty" doc:"Note for people, at most 500 bytes."`
	}
	// DecideAnswer is the result of [Commands.Decide].
	DecideAnswer struct {
		Rule *Rule `json:"rule,omitempty" doc:"The rule that was stored because of remember."`
	}
	// ApprovalAnswer is a pending approval.
	ApprovalAnswer struct {
		Approval       event.Approval `json:"approval"`
		SuggestedRules []RuleFields   `json:"suggestedRules" doc:"Rules that would allow calls like this one, narrowest first, for use in remember."`
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
	return RuleFields{r.Effect, r.Kind, r.CLIType, r.ProjectDir, r.SessionID, r.Tool, r.Pattern, r.Note}
}

// RuleBy returns the rule that a caller wants to store. The rule of a caller
// that is bound to a project is for that project, unless it names a folder.
func RuleBy(caller auth.Identity, in RuleRequest) store.Rule {
	return store.Rule{
		Effect: in.Effect, Kind: in.Kind, CLIType: in.CLIType, ProjectDir: cmp.Or(in.ProjectDir, caller.Project), SessionID: in.SessionID, Tool: in.Tool,
		Pattern: in.Pattern, Note: in.Note, By: caller.ID, ByName: caller.Name,
	}
}

// Approval returns a pending approval, with rules that would answer requests
// like it.
func (c Commands) Approval(r *http.Request, id, approval string) (ApprovalAnswer, error) {
	id, err := c.Sessions.VisibleRef(r.Context(), id)
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
