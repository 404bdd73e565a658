package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// Approvals answers what agents ask, and keeps the rules that answer without a
// person. It belongs to a Gateway, and its methods may be called from anywhere.
type Approvals struct{ g *Gateway }

// Approvals returns the part of the gateway that answers what agents ask.
func (g *Gateway) Approvals() Approvals { return Approvals{g} }

// Rules returns the stored rules, oldest first.
func (as Approvals) Rules() []store.Rule { return as.g.rules.all() }

// AddRule stores a rule that holds from now on, also for approvals that are
// asked for in running turns. It returns the rule as it is stored, and the
// existing one if there is one that decides the same.
func (as Approvals) AddRule(ctx context.Context, r store.Rule) (store.Rule, error) {
	r, err := rules.Check(r)
	if err != nil {
		return r, runnel.Fail(runnel.InvalidRequest, err.Error())
	}
	return as.g.rules.add(ctx, r)
}

// RemoveRule removes a rule, or returns store.ErrNotFound.
func (as Approvals) RemoveRule(ctx context.Context, id int64) error {
	return as.g.rules.remove(ctx, id)
}

// CLIType returns the name that rules use for a kind of agent, which may have
// others. It fails for a kind that the gateway does not know.
func (as Approvals) CLIType(name string) (string, error) {
	p, err := as.g.opener.providers.Choose(name)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

// An OpenApproval is an approval that waits for its answer, with rules that
// would answer others like it.
type OpenApproval struct {
	Approval  event.Approval
	Suggested []store.Rule // the narrowest first; none if no rule can express it
}

// Open returns an approval that waits for its answer, or APPROVAL_GONE.
func (as Approvals) Open(ctx context.Context, ref, id string) (OpenApproval, error) {
	e, err := as.asking(ctx, ref)
	if err != nil {
		return OpenApproval{}, err
	}
	defer as.g.sessions.release(e)
	a, err := e.session.Approval(ctx, id)
	if err != nil {
		return OpenApproval{}, err
	}
	return OpenApproval{a, rules.Suggest(ruleCall(e.call(a)))}, nil
}

// Decide answers an approval.
func (as Approvals) Decide(ctx context.Context, ref, approval string, d runnel.Decision) error {
	if d.Choice == event.ChoiceWithdrawn {
		return errNoChoice()
	}
	e, err := as.asking(ctx, ref)
	if err != nil {
		return err
	}
	defer as.g.sessions.release(e)
	if len(d.UpdatedArguments) > 0 {
		if err := as.checkEdited(ctx, e, approval, d); err != nil {
			return err
		}
	}
	return e.session.Decide(ctx, approval, d)
}

// Remembered returns a rule as [Approvals.DecideAndRemember] would store it. It
// fails as that would, and changes nothing.
func (as Approvals) Remembered(ctx context.Context, ref, approval string, d runnel.Decision, r store.Rule) (store.Rule, error) {
	e, err := as.asking(ctx, ref)
	if err != nil {
		return r, err
	}
	defer as.g.sessions.release(e)
	return remembered(ctx, e, approval, d, r)
}

// DecideAndRemember answers an approval, and stores a rule that answers calls
// like this one in the same way from now on. It returns the rule as it is
// stored. If the rule cannot be stored, the approval is answered without it.
func (as Approvals) DecideAndRemember(ctx context.Context, ref, approval string, d runnel.Decision, r store.Rule) (store.Rule, error) {
	e, err := as.asking(ctx, ref)
	if err != nil {
		return r, err
	}
	defer as.g.sessions.release(e)
	if r, err = remembered(ctx, e, approval, d, r); err != nil {
		return r, err
	}
	// The rule takes effect only after the decision: a judge that still runs
	// would find the rule, and answer in place of the caller. The decision is
	// waited for also when the caller has left, since it may have been made.
	ctx, decided := context.WithoutCancel(ctx), false
	stored, err := as.g.rules.addWith(ctx, r, func(rule int64) error {
		d.Maker.Rule, decided = rule, true
		return e.session.Decide(ctx, approval, d)
	})
	if decided {
		return stored, err
	}
	if failed := e.session.Decide(ctx, approval, d); failed != nil {
		return r, failed
	}
	return r, err
}

func errNoChoice() error {
	return runnel.Fail(runnel.InvalidRequest, "choice: not one of the approval's choices")
}

// asking returns the session if it is open, and APPROVAL_GONE otherwise: then
// it has no approval to decide. The caller releases it.
func (as Approvals) asking(ctx context.Context, ref string) (*entry, error) {
	e, err := as.g.opened(ctx, ref)
	if e == nil && err == nil {
		err = runnel.Fail(runnel.ApprovalGone, "this approval is already resolved, withdrawn or not of this session")
	}
	return e, err
}

// call returns what policies are asked about an approval of the session.
func (e *entry) call(a event.Approval) policy.Call {
	return policy.Call{Session: e.rec.ID, CLIType: e.rec.CLIType, Dir: e.rec.ProjectDir, Approval: a}
}

// checkEdited returns the error for changed arguments that a policy denies: who
// answers may change a call only into one that is not denied.
func (as Approvals) checkEdited(ctx context.Context, e *entry, id string, d runnel.Decision) error {
	a, err := e.session.Approval(ctx, id)
	if err != nil || a.Kind != event.ApprovalTool {
		return err
	}
	a.Arguments, a.Changes = d.UpdatedArguments, nil // the changes were those of the other arguments
	v, ok := e.gov.sources(as.g.opener.policy).Forbid(ctx, e.call(a))
	if !ok || v.Allow {
		return nil
	}
	if v.Ask {
		return nil // a person is being asked, and answers
	}
	return runnel.Fail(runnel.Forbidden, "updatedArguments: "+v.Reason+"; change them, remove what denies them, or deny the approval")
}

// remembered returns the rule that is to be stored with a decision. It has to
// decide the approval as the decision does.
func remembered(ctx context.Context, e *entry, id string, d runnel.Decision, r store.Rule) (store.Rule, error) {
	if len(d.UpdatedArguments) > 0 {
		return r, runnel.Fail(runnel.InvalidRequest, "remember: cannot be given with updatedArguments; a rule never changes arguments")
	}
	a, err := e.session.Approval(ctx, id)
	if err != nil {
		return r, err
	}
	i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == d.Choice })
	switch {
	case i < 0:
		return r, errNoChoice()
	case d.ArgumentsDigest == "":
		return r, runnel.Fail(runnel.InvalidRequest, "argumentsDigest: required to remember a decision; quote the approval's")
	case d.ArgumentsDigest != a.ArgumentsDigest:
		return r, runnel.Fail(runnel.ApprovalGone, "the arguments have changed since this answer was made; look at the approval again")
	}
	effect := store.EffectAllow
	if strings.HasPrefix(string(a.Choices[i].Kind), string(event.ChoiceDeny)) {
		effect = store.EffectDeny
	}
	if r.Effect == "" {
		r.Effect = effect
	}
	if r.Effect != effect {
		return r, runnel.Fail(runnel.InvalidRequest, "remember.effect: is "+string(r.Effect)+", but the choice is to "+string(effect))
	}
	if r, err = rules.Check(r); err != nil {
		return r, runnel.Fail(runnel.InvalidRequest, "remember."+err.Error())
	}
	if !rules.Matches(r, ruleCall(e.call(a))) {
		return r, runnel.Fail(runnel.InvalidRequest, "remember: this rule would not decide this approval; GET the approval for rules that would")
	}
	return r, nil
}
