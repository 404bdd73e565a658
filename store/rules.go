package store

import (
	"context"
	"time"
)

// Rules is the part of a [Catalogue] that stores the rules that decide tool
// calls without a person.
type Rules interface {
	// AddRule adds a rule and returns its number, which is one more than the
	// highest number ever used. It ignores r.ID.
	AddRule(ctx context.Context, r Rule) (int64, error)
	// Rules returns all rules, oldest first.
	Rules(ctx context.Context) ([]Rule, error)
	// UseRule counts one use of a rule. A missing rule is not an error.
	UseRule(ctx context.Context, id int64, at time.Time) error
	// DeleteRule removes a rule. It returns ErrNotFound if no rule has this
	// number.
	DeleteRule(ctx context.Context, id int64) error
}

// Effect is the decision of a rule for the calls that it matches.
type Effect string

// The effects of rules.
const (
	EffectAllow Effect = "allow"
	EffectDeny  Effect = "deny"
)

// RuleKind is the kind of tool calls that a rule matches. It defines the
// meaning of the rule's pattern.
type RuleKind string

// The kinds of rules.
const (
	RuleExecute RuleKind = "execute" // commands; the pattern is a command, or the first words of one followed by *
	RuleEdit    RuleKind = "edit"    // file changes; the pattern is a file, or a folder and everything below it
	RuleRead    RuleKind = "read"    // file reads; the pattern is as for edits
	RuleFetch   RuleKind = "fetch"   // URLs; the pattern is a host, or *. and a domain
	RuleConnect RuleKind = "connect" // connections from a sandbox; the pattern is a host, or *. and a domain, with an optional port. Default: 443 and 80
	RuleTool    RuleKind = "tool"    // a tool by its name, for example of an MCP server; has no pattern

	// The kinds below decide no calls: they let sandboxes reach a path outside
	// of the project. The pattern is a file, or a folder and everything below it.
	RuleSandboxRead  RuleKind = "sandbox_read"  // programs in a sandbox can read it
	RuleSandboxWrite RuleKind = "sandbox_write" // programs in a sandbox can read and write it
)

// IsSandbox reports whether rules of the kind are about paths of sandboxes, and
// decide no calls.
func (k RuleKind) IsSandbox() bool { return k == RuleSandboxRead || k == RuleSandboxWrite }

// A Rule decides tool calls without a person, or lets sandboxes reach a path.
type Rule struct {
	ID         int64 // 1, 2, 3 …; never reused
	Effect     Effect
	Kind       RuleKind
	CLIType    string // provider name; empty for all agents
	ProjectDir string // matches sessions in this folder and below; empty for all
	SessionID  string // matches only this session; empty for all. Only for a kind with IsSandbox
	Tool       string // the agent's name of the tool; empty for all tools of the kind
	Pattern    string // see RuleKind
	Note       string // free text of the person who made the rule
	By         string // id of the credential that made it
	ByName     string // name of that credential when the rule was made
	CreatedAt  time.Time
	Uses       int64
	LastUsedAt time.Time // zero: never
}
