package runnel

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// question is what is remembered of a pending approval.
type question struct {
	at   time.Time          // when it was asked
	over context.CancelFunc // tells its Approver that it needs no answer any more
}

// answer decides an approval on our own account, if that is how it is to be.
// ctx ends once the approval is resolved.
func (s *Session) answer(ctx context.Context, a event.Approval) {
	switch {
	case s.opt.Approve != nil:
		// Not a helper: an Approver may take for ever, and may close the session.
		go s.consult(ctx, s.opt.Approve, a)
	case s.cfg.ApprovalTimeout < 0:
		s.helpers.Go(func() {
			_ = s.Decide(s.ctx, a.ID, refuse(a, "approval required: nobody is there to answer, so it was denied"))
		})
	}
}

// consult has an Approver answer. An answer that does not fit is a denial: the
// agent would wait for ever.
func (s *Session) consult(ctx context.Context, approve Approver, a event.Approval) {
	d := approve(ctx, a)
	if d.ArgumentsDigest == "" { // it was called with these arguments
		d.ArgumentsDigest = a.ArgumentsDigest
	}
	if d.By == "" {
		d.By = event.ByPolicy
	}
	if s.Decide(s.ctx, a.ID, d) != nil {
		_ = s.Decide(s.ctx, a.ID, refuse(a, "the answer did not fit the question, so it was denied"))
	}
}

func refuse(a event.Approval, why string) Decision {
	return Decision{Choice: denial(a), By: event.ByPolicy, Reason: why}
}

func denial(a event.Approval) string {
	for _, kind := range []event.ChoiceKind{event.ChoiceDeny, event.ChoiceDenyStop} {
		if i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.Kind == kind }); i >= 0 {
			return a.Choices[i].ID
		}
	}
	return event.ChoiceWithdrawn
}

func (s *Session) decide(id string, d Decision) error {
	lt, a := s.approval(id)
	if lt == nil {
		return Fail(ApprovalGone, "this approval is already resolved, withdrawn or not of this session")
	}
	if d.ArgumentsDigest != "" && d.ArgumentsDigest != a.ArgumentsDigest {
		return Fail(ApprovalGone, "the arguments have changed since this answer was made; look at the approval again")
	}
	i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == d.Choice })
	if i < 0 && d.Choice != event.ChoiceWithdrawn {
		return Fail(InvalidRequest, "choice: not one of the approval's choices")
	}
	if i >= 0 && d.approvesUnseen(a, a.Choices[i].Kind) {
		return Fail(InvalidRequest, "argumentsDigest: required to approve; quote the approval's, so that nothing else is approved")
	}
	if len(d.UpdatedArguments) > 0 {
		if !a.ArgumentsEditable {
			return Fail(InvalidRequest, "updatedArguments: this approval does not allow changed arguments")
		}
		if !json.Valid(d.UpdatedArguments) {
			return Fail(InvalidRequest, "updatedArguments: not JSON")
		}
	}
	if d.By == "" {
		d.By = event.ByUser
	}
	now := time.Now()
	s.take(lt, lt.rules.admit(event.Event{At: now, Body: event.ApprovalResolved{
		ApprovalID: id, Choice: d.Choice, By: d.By, Reason: d.Reason, UpdatedArguments: d.UpdatedArguments,
	}}))
	stop := i < 0 || a.Choices[i].Kind == event.ChoiceDenyStop
	if stop {
		s.take(lt, lt.rules.withdraw(now, WithdrawnByCancel))
	}
	if err := s.flush(); err != nil {
		return err
	}
	lt.heard = now
	if stop {
		lt.rules.cancelling, lt.overdue = true, now.Add(s.cfg.InterruptGrace)
	}
	if s.link == nil {
		return nil // its end is on the way
	}
	var err error
	if i < 0 {
		err = s.link.conn.Interrupt(s.ctx)
	} else {
		err = s.link.conn.Decide(s.ctx, id, d)
	}
	if err == nil {
		return nil
	}
	if CodeOf(err) != ApprovalGone { // the agent would wait for ever for what it cannot be told
		s.fail(lt, Safe(err))
		s.dismiss(errDismissed())
	}
	return Safe(err)
}

func (s *Session) approval(id string) (*liveTurn, event.Approval) {
	for _, lt := range s.live {
		if i := lt.rules.pending(id); i >= 0 {
			return lt, lt.rules.asked[i]
		}
	}
	return nil, event.Approval{}
}
