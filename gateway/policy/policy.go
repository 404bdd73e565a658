// Package policy decides approvals without a person: it asks sources of
// decisions in a fixed order, and converts the first verdict to an answer to
// the approval.
package policy

import (
	"context"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Call is a call of a tool, or another question of an agent, that an approval
// is about.
type Call struct {
	Session  string // our id
	CLIType  string // the provider's name
	Dir      string // the directory that the agent works in, canonical
	Project  string // the session's project directory, canonical, if it is not Dir
	Copy     string // a folder that is a copy of Original, such as a git worktree; canonical. Default: none
	Original string // rules for paths in Original also apply to the same paths in Copy
	Approval event.Approval
}

// A Verdict is what a source decided.
type Verdict struct {
	Allow  bool
	Ask    bool   // a person decides: later sources are not asked, and Allow is ignored
	Source string // such as "rules" or "profile"
	Reason string // for people; the agent reads the reason for a denial
	Rule   int64  // number of the stored rule that decided. Default: none did
}

// A Source decides a call, or reports false to leave it to the next source. It
// is called from any goroutine and returns when ctx ends.
type Source func(ctx context.Context, c Call) (Verdict, bool)

// Sources are asked in the order of the fields, and the first source that
// decides wins. A nil source is skipped.
type Sources struct {
	Forbidden   Source // tools that the session's profile forbids
	Delegation  Source // the gates of delegation
	DenyRules   Source // stored rules that deny
	AutoApprove Source // tools that the session's profile allows
	AllowRules  Source // stored rules that allow
}

// Decide returns the first verdict, or false if a person has to decide.
func (s Sources) Decide(ctx context.Context, c Call) (Verdict, bool) {
	for _, source := range []Source{s.Forbidden, s.Delegation, s.DenyRules, s.AutoApprove, s.AllowRules} {
		if source == nil {
			continue
		}
		if v, ok := source(ctx, c); ok {
			return v, !v.Ask
		}
		if ctx.Err() != nil { // a source that could not decide in time might have denied
			return Verdict{}, false
		}
	}
	return Verdict{}, false
}

// Forbid returns the first verdict of the sources that can deny a call:
// Forbidden, Delegation and DenyRules. It returns false if none of them
// decides.
func (s Sources) Forbid(ctx context.Context, c Call) (Verdict, bool) {
	for _, source := range []Source{s.Forbidden, s.Delegation, s.DenyRules} {
		if source == nil {
			continue
		}
		if v, ok := source(ctx, c); ok {
			return v, true
		}
	}
	return Verdict{}, false
}

// Judge returns the judge of a session. call has all fields except Approval,
// which the judge sets.
func (s Sources) Judge(call Call) runnel.Judge {
	return func(ctx context.Context, a event.Approval) (runnel.Decision, bool) {
		call := call
		call.Approval = a
		v, ok := s.Decide(ctx, call)
		if !ok {
			return runnel.Decision{}, false
		}
		return v.decision(a)
	}
}

// decision returns the verdict as an answer to an approval. If the verdict
// allows and the approval has no choice that allows once, decision returns
// false, because a verdict never allows more than one call. If the verdict
// denies and the approval has no choice that denies, the approval is withdrawn.
func (v Verdict) decision(a event.Approval) (runnel.Decision, bool) {
	d := runnel.Decision{Reason: v.Reason, By: event.ByPolicy, ArgumentsDigest: a.ArgumentsDigest, Maker: runnel.Maker{Name: v.Source, Rule: v.Rule}}
	kinds := []event.ChoiceKind{event.ChoiceDeny, event.ChoiceDenyStop}
	if v.Allow {
		kinds = []event.ChoiceKind{event.ChoiceAllowOnce}
	}
	for _, kind := range kinds {
		if i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.Kind == kind }); i >= 0 {
			d.Choice = a.Choices[i].ID
			return d, true
		}
	}
	d.Choice = event.ChoiceWithdrawn // a call that is denied must not run, and the agent offers no other way
	return d, !v.Allow
}
