package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// Approvals decides agents' approvals and stores the rules that decide
// approvals without a person. It belongs to a Gateway. Its methods are safe for
// concurrent use.
type Approvals struct{ g *Gateway }

// Approvals returns the part of the gateway that decides approvals and stores
// rules.
func (g *Gateway) Approvals() Approvals { return Approvals{g} }

// Rules returns the stored rules, oldest first.
func (as Approvals) Rules() []store.Rule { return as.g.rules.all() }

// AddRule stores a rule and returns it as stored. The rule applies from now on,
// also to later approvals of turns that already run. If an equal rule exists,
// AddRule returns that rule. If ctx is limited to a project, the rule must be
// for that project or folders in it. For a rule of a kind with IsSandbox, call
// [Approvals.AllowInSandbox].
func (as Approvals) AddRule(ctx context.Context, r store.Rule) (store.Rule, error) {
	r, err := rules.Check(r)
	if err != nil {
		return r, runnel.Fail(runnel.InvalidRequest, err.Error())
	}
	if r.Kind.IsSandbox() {
		return r, runnel.Fail(runnel.InvalidRequest, "kind: a rule about sandboxes decides no calls")
	}
	if err := checkOwnRule(ctx, r); err != nil {
		return r, err
	}
	return as.g.rules.add(ctx, r)
}

// OwnRule reports whether a rule, as it is stored, concerns only the project to
// which ctx is limited, if it is limited to one; see [WithProject].
func OwnRule(ctx context.Context, r store.Rule) bool {
	own := onlyProject(ctx)
	return own == "" || r.ProjectDir != "" && subpath.Within(r.ProjectDir, own)
}

// checkOwnRule returns an error unless [OwnRule] holds. r must be the rule that
// will be stored: links in its folder may change each time they are resolved.
func checkOwnRule(ctx context.Context, r store.Rule) error {
	if OwnRule(ctx, r) {
		return nil
	}
	return runnel.Fail(runnel.Forbidden, "projectDir: this credential can create rules only for its own project: "+onlyProject(ctx))
}

// RemoveRule removes a rule, or returns store.ErrNotFound. For a rule about
// sandboxes, it returns for which open sessions the removal has taken effect.
func (as Approvals) RemoveRule(ctx context.Context, id int64) (*SandboxChange, error) {
	list := as.g.rules.all()
	i := slices.IndexFunc(list, func(r store.Rule) bool { return r.ID == id })
	if err := as.g.rules.remove(ctx, id); err != nil || i < 0 || !list[i].Kind.IsSandbox() {
		return nil, err
	}
	return as.applySandbox(ctx, list[i]), nil
}

// CLIType returns the name that rules use for a kind of agent. The argument may
// be any name of that kind. CLIType fails if the gateway does not know the
// kind.
func (as Approvals) CLIType(name string) (string, error) {
	p, err := as.g.opener.providers.Choose(name)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

// An OpenApproval is an approval that waits for a decision, with suggested
// rules that would allow similar approvals.
type OpenApproval struct {
	Approval  event.Approval
	Suggested []store.Rule // the narrowest first; empty if no rule can match the approval
}

// Open returns an approval that waits for a decision. It fails with
// APPROVAL_GONE if no such approval waits.
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

// Decide sends a decision about an approval to its session.
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
	return as.decide(ctx, e, approval, d)
}

// decide decides an approval. A decision that also stops the turn holds the
// queue, as [Gateway.Cancel] does.
func (as Approvals) decide(ctx context.Context, e *entry, approval string, d runnel.Decision) error {
	before, _ := e.held()
	if !before && stops(ctx, e, approval, d.Choice) {
		if err := as.g.queue.hold(ctx, e, true); err != nil {
			return err
		}
	}
	err := e.session.Decide(ctx, approval, d)
	if after, _ := e.held(); err != nil && after && !before { // nothing was stopped
		err = errors.Join(err, as.g.queue.hold(ctx, e, false))
		as.g.queue.startIfWaiting(e)
	}
	return err
}

// stops reports whether a choice of a pending approval also stops the turn.
func stops(ctx context.Context, e *entry, approval, choice string) bool {
	a, err := e.session.Approval(ctx, approval)
	return err == nil && slices.ContainsFunc(a.Choices, func(c event.Choice) bool { return c.ID == choice && c.Kind == event.ChoiceDenyStop })
}

// DenyUnasked is [Approvals.Decide] for a client that denies without having
// asked a person. The decision is logged as by policy. DenyUnasked fails with
// INVALID_REQUEST for a choice that does not deny.
func (as Approvals) DenyUnasked(ctx context.Context, ref, approval string, d runnel.Decision) error {
	e, err := as.asking(ctx, ref)
	if err != nil {
		return err
	}
	defer as.g.sessions.release(e)
	a, err := e.session.Approval(ctx, approval)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == d.Choice })
	switch {
	case i < 0:
		return errNoChoice()
	case a.Choices[i].Kind != event.ChoiceDeny && a.Choices[i].Kind != event.ChoiceDenyStop:
		return runnel.Fail(runnel.InvalidRequest, "automatic: only a choice that denies can be made without a person")
	}
	d.By = event.ByPolicy
	return e.session.Decide(ctx, approval, d)
}

// DecideAndRemember decides an approval and stores a rule that decides similar
// calls in the same way from now on. It returns the rule as stored. If the rule
// cannot be stored, DecideAndRemember still decides the approval, and returns
// the error. It decides nothing if the rule does not decide the approval as d
// does, or is not for the project to which ctx is limited.
//
// DecideAndRemember calls record with the rule before it stores the rule. If
// record fails, nothing is decided; nil records nothing.
//
// The rule is on the disk before the decision is in the log. If the server is
// killed in between, the next server finds the approval open and decides it by
// the rule, or, if its turn has ended, has the rule for later approvals.
func (as Approvals) DecideAndRemember(ctx context.Context, ref, approval string, d runnel.Decision, r store.Rule, record func(store.Rule) error) (store.Rule, error) {
	e, err := as.asking(ctx, ref)
	if err != nil {
		return r, err
	}
	defer as.g.sessions.release(e)
	if r, err = remembered(ctx, e, approval, d, r); err != nil {
		return r, err
	}
	if record != nil {
		if err := record(r); err != nil {
			return r, err
		}
	}
	// The rule takes effect only after the decision. Otherwise a judge that still
	// runs could find the rule and decide instead of the caller. The decision
	// continues even if the caller disconnects, because the session may already
	// have made it.
	ctx, decided := context.WithoutCancel(ctx), false
	stored, err := as.g.rules.addWith(ctx, r, func(rule int64) error {
		d.Maker.Rule, decided = rule, true
		return as.decide(ctx, e, approval, d)
	})
	if decided {
		return stored, err
	}
	if failed := as.decide(ctx, e, approval, d); failed != nil {
		return r, failed
	}
	return r, err
}

func errNoChoice() error {
	return runnel.Fail(runnel.InvalidRequest, "choice: not one of the approval's choices")
}

// asking returns the session that ref names if it is open; the caller must
// release it. A closed session has no approval to decide, so asking then fails
// with APPROVAL_GONE.
func (as Approvals) asking(ctx context.Context, ref string) (*entry, error) {
	e, err := as.g.opened(ctx, ref)
	if e == nil && err == nil {
		err = runnel.Fail(runnel.ApprovalGone, "this approval is resolved, withdrawn or not part of this session; read the session again")
	}
	return e, err
}

// call returns the call that approval a is about, in the form that policy
// sources receive.
func (e *entry) call(a event.Approval) policy.Call {
	copied, original := counterpart(e.rec)
	return policy.Call{Session: e.rec.ID, CLIType: e.rec.CLIType, Dir: workDir(e.rec), Project: e.rec.ProjectDir, Copy: copied, Original: original, Approval: a}
}

// checkEdited returns an error if a policy denies the changed arguments. A
// person may not change a call into one that a policy denies.
func (as Approvals) checkEdited(ctx context.Context, e *entry, id string, d runnel.Decision) error {
	a, err := e.session.Approval(ctx, id)
	if err != nil || a.Kind != event.ApprovalTool {
		return err
	}
	a.Arguments, a.Changes = d.UpdatedArguments, nil // Changes described the original arguments
	v, ok := e.gov.sources(as.g.opener.policy).Forbid(ctx, e.call(a))
	if !ok || v.Allow {
		return nil
	}
	if v.Ask {
		return nil // a person has to decide, and d is a person's decision
	}
	return runnel.Fail(runnel.Forbidden, "updatedArguments: "+v.Reason+"; change them, remove what denies them, or deny the approval")
}

// remembered returns the rule to store with decision d. It fails unless the
// rule decides the approval as d does, and is for the project to which ctx is
// limited.
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
		return r, runnel.Fail(runnel.InvalidRequest, "argumentsDigest: required to remember a decision; copy it from the approval")
	case d.ArgumentsDigest != a.ArgumentsDigest:
		return r, runnel.Fail(runnel.ApprovalGone, "the arguments have changed since you read the approval; read it again, then answer")
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
	return r, checkOwnRule(ctx, r)
}
