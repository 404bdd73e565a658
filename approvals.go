package runnel

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// question is what is remembered of a pending approval. Config.Judge decides
// first; everybody else may answer once it has passed.
type question struct {
	approval event.Approval
	maker    Maker     // of the decision that is being logged
	since    time.Time // when everybody could answer; zero while Config.Judge decides
	judgeBy  time.Time // when Config.Judge counts as having passed; zero: it need not decide
	held     []decideMsg
	ctx      context.Context
	over     context.CancelFunc // tells its Judge or Approver that it needs no answer any more
}

// judging reports whether Config.Judge has neither decided nor passed.
func (q *question) judging() bool { return !q.judgeBy.IsZero() }

// judgeTimeout is how long Config.Judge may take before people are asked.
const judgeTimeout = 3 * time.Second

// findAnswer begins to find an answer to an approval of a turn.
func (s *Session) findAnswer(lt *liveTurn, a event.Approval) {
	q := &question{approval: a}
	q.ctx, q.over = context.WithCancel(s.ctx)
	lt.asked[a.ID] = q
	if s.cfg.Judge == nil {
		s.openToAll(q)
		return
	}
	q.judgeBy = time.Now().Add(judgeTimeout)
	// Not a helper: a disk that hangs must not hold up the end of the session.
	go s.judge(q.ctx, a)
}

// judge has Config.Judge decide, and tells the session what came of it.
func (s *Session) judge(ctx context.Context, a event.Approval) {
	ctx, done := context.WithTimeout(ctx, judgeTimeout)
	defer done()
	d, ok := s.cfg.Judge(ctx, a)
	select {
	case s.box <- verdictMsg{a.ID, d.onBehalf(a), ok}:
	case <-s.ended:
	}
}

// judged follows up on what Config.Judge made of an approval. A verdict that
// comes too late is dropped.
func (s *Session) judged(m verdictMsg) {
	lt, a := s.approval(m.id)
	if lt == nil || !lt.asked[m.id].judging() {
		return
	}
	q := lt.asked[m.id]
	held := q.held
	q.judgeBy, q.held = time.Time{}, nil
	if m.ok && s.decide(m.id, m.d) != nil {
		_ = s.decide(m.id, refuse(a, "the verdict did not fit the question, so it was denied"))
	}
	for _, late := range held {
		late.reply <- answer[struct{}]{err: s.decide(m.id, late.d)}
	}
	if q.ctx.Err() == nil {
		s.openToAll(q)
		if s.cfg.Asked != nil {
			s.cfg.Asked()
		}
	}
}

// hold keeps an answer to an approval until Config.Judge has passed: a person
// or a program that is faster than a rule must not beat it. It reports false if
// the answer counts at once.
func (s *Session) hold(m decideMsg) bool {
	lt, _ := s.approval(m.id)
	if lt == nil || !lt.asked[m.id].judging() {
		return false
	}
	q := lt.asked[m.id]
	q.held = append(q.held, m)
	return true
}

// end ends the wait for answers to an approval. Whoever still tries to answer
// gets err.
func (q *question) end(err error) {
	q.over()
	for _, held := range q.held {
		held.reply <- answer[struct{}]{err: err}
	}
	q.held = nil
}

// openToAll lets everybody answer. Where an Approver or nobody is to answer, it
// decides on the session's own account.
func (s *Session) openToAll(q *question) {
	q.since = time.Now()
	switch a := q.approval; {
	case s.opt.Approve != nil:
		// Not a helper: an Approver may take for ever, and may close the session.
		go s.consult(q.ctx, s.opt.Approve, a)
	case s.cfg.ApprovalTimeout < 0:
		s.helpers.Go(func() {
			_ = s.Decide(s.ctx, a.ID, refuse(a, universal.ApprovalRequired+": nobody is there to answer, so it was denied"))
		})
	}
}

// consult has an Approver answer. An answer that does not fit is a denial: the
// agent would wait for ever.
func (s *Session) consult(ctx context.Context, approve Approver, a event.Approval) {
	if s.Decide(s.ctx, a.ID, approve(ctx, a).onBehalf(a)) != nil {
		_ = s.Decide(s.ctx, a.ID, refuse(a, "the answer did not fit the question, so it was denied"))
	}
}

// onBehalf returns the decision of a Judge or an Approver, which was called
// with the arguments of a.
func (d Decision) onBehalf(a event.Approval) Decision {
	d.ArgumentsDigest = cmp.Or(d.ArgumentsDigest, a.ArgumentsDigest)
	d.By = cmp.Or(d.By, event.ByPolicy)
	return d
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
		return errApprovalGone()
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
	lt.asked[id].maker = d.Maker
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

func errApprovalGone() *Error {
	return Fail(ApprovalGone, "this approval is already resolved, withdrawn or not of this session")
}

func (s *Session) approval(id string) (*liveTurn, event.Approval) {
	for _, lt := range s.live {
		if i := lt.rules.pending(id); i >= 0 {
			return lt, lt.rules.asked[i]
		}
	}
	return nil, event.Approval{}
}
