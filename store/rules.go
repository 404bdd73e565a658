package store

import (
	"context"
	"time"
)

// Rules is the part of a [Catalogue] that keeps the rules by which calls of
// tools are decided without a person.
type Rules interface {
	// AddRule adds a rule and returns its number: one more than any rule ever
	// had. It ignores r.ID.
	AddRule(ctx context.Context, r Rule) (int64, error)
	// Rules returns all rules, oldest first.
	Rules(ctx context.Context) ([]Rule, error)
	// UseRule counts one use of a rule. Using a rule that does not exist is not an
	// error.
	UseRule(ctx context.Context, id int64, at time.Time) error
	// DeleteRule removes a rule. It returns ErrNotFound if there is no rule with
	// this number.
	DeleteRule(ctx context.Context, id int64) error
}

// Effect is what a rule does with the calls that it matches.
type Effect string

// The effects of rules.
const (
	EffectAllow Effect = "allow"
	EffectDeny  Effect = "deny"
)

// RuleKind says what calls a rule is about, and what its pattern is.
type RuleKind string

// The kinds of rules.
const (
	RuleExecute RuleKind = "execute" // commands; the pattern is a command, or its first words and *
	RuleEdit    RuleKind = "edit"    // changes of files; the pattern is a file, or a folder and all below it
	RuleRead    RuleKind = "read"    // reads of files; the pattern is as for edits
	RuleFetch   RuleKind = "fetch"   // URLs; the pattern is a host, or *. and a domain
	RuleTool    RuleKind = "tool"    // a tool by its name, such as one of an MCP server; without a pattern
)

// A Rule decides calls of tools without a person.
type Rule struct {
	ID         int64 // 1, 2, 3 …; never used again
	Effect     Effect
	Kind       RuleKind
	CLIType    string // the provider's name; empty for all agents
	ProjectDir string // of the sessions that it is for, with all folders below; empty for all
	Tool       string // as the agent calls it; empty for all tools of the kind
	Pattern    string // what it matches; see RuleKind
	Note       string // of who made it
	By         string // id of the credential that made it
	ByName     string // name of that credential, as it was then
	CreatedAt  time.Time
	Uses       int64
	LastUsedAt time.Time // zero: never
}
