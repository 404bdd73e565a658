package runnel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/universal"
)

// question is the state of a pending approval. Config.Judge decides first. The
// approver, people and programs may answer once Config.Judge has passed.
type question struct {
	approval event.Approval
	maker    Maker              // of the decision that is being logged
	since    time.Time          // start of the approval timeout; zero while judging
	judgeBy  time.Time          // deadline of Config.Judge; zero: not judging
	held     []decideMsg        // answers that wait for Config.Judge
	ctx      context.Context    // of the calls of Judge and Approver
	over     context.CancelFunc // ends ctx
	reach    *reachQuestion     // nil: the agent waits for the answer
}

// judging reports whether Config.Judge is still deciding.
func (q *question) judging() bool { return !q.judgeBy.IsZero() }

// judgeTimeout bounds a call of Config.Judge; then people are asked.
const judgeTimeout = 3 * time.Second

// findAnswer starts to wait for an answer to an approval of a turn.
func (s *Session) findAnswer(lt *liveTurn, a event.Approval) {
	q := &question{approval: a, reach: lt.reach.byID[a.ID]}
	q.ctx, q.over = context.WithCancel(s.ctx)
	lt.asked[a.ID] = q
	if s.cfg.Judge == nil || q.reach != nil { // Judge has passed a question about a host already
		s.openToAll(q)
		return
	}
	q.judgeBy = time.Now().Add(judgeTimeout)
	// Not in s.helpers: Close must not wait for a Judge that blocks.
	go s.judge(q.ctx, a)
}

// judge calls Config.Judge and sends the verdict to the session.
func (s *Session) judge(ctx context.Context, a event.Approval) {
	ctx, done := context.WithTimeout(ctx, judgeTimeout)
	defer done()
	d, ok := s.cfg.Judge(ctx, a)
	s.do(func() { s.judged(verdictMsg{a.ID, d.onBehalf(a), ok}) })
}

// judged applies the verdict of Config.Judge. It drops a verdict for an
// approval that is resolved or past its judgeBy.
func (s *Session) judged(m verdictMsg) {
	lt, a := s.approval(m.id)
	if lt == nil || !lt.asked[m.id].judging() {
		return
	}
	q := lt.asked[m.id]
	held := q.held
	q.judgeBy, q.held = time.Time{}, nil
	if m.ok && s.decide(m.id, m.d) != nil {
		_ = s.decide(m.id, refuse(a, "the rule's decision was invalid for this approval, so it was denied"))
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

// hold keeps an answer to an approval until Config.Judge has passed, so that a
// fast person or program cannot overtake a rule. It reports false if the answer
// counts at once.
func (s *Session) hold(m decideMsg) bool {
	lt, _ := s.approval(m.id)
	if lt == nil || !lt.asked[m.id].judging() {
		return false
	}
	q := lt.asked[m.id]
	q.held = append(q.held, m)
	return true
}

// end stops the wait for an answer to an approval. It replies err to the
// callers whose answers are in held.
func (q *question) end(err error) {
	q.over()
	for _, held := range q.held {
		held.reply <- answer[struct{}]{err: err}
	}
	q.held = nil
	if q.reach != nil {
		q.reach.reply(refusedReach(whyNotLogged))
	}
}

// expires returns when an approval is denied for want of an answer; zero: never.
func (s *Session) expires(q *question) (at time.Time) {
	if q.judging() {
		return at
	}
	if s.cfg.ApprovalTimeout > 0 {
		at = q.since.Add(s.cfg.ApprovalTimeout)
	}
	if limit := q.since.Add(reachTimeout); q.reach != nil && (at.IsZero() || limit.Before(at)) {
		at = limit
	}
	return at
}

// openToAll accepts answers to an approval from all callers of Decide. It calls
// Options.Approve, if set. If ApprovalTimeout is negative, it denies at once.
func (s *Session) openToAll(q *question) {
	q.since = time.Now()
	switch a := q.approval; {
	case s.opt.Approve != nil:
		// Not in s.helpers: Close must not wait for an Approver, which may
		// block and may itself close the session.
		go s.consult(q.ctx, s.opt.Approve, a)
	case s.cfg.ApprovalTimeout < 0:
		s.helpers.Go(func() {
			_ = s.Decide(s.ctx, a.ID, refuse(a, universal.ApprovalRequired+": no one can answer, so it was denied"))
		})
	}
}

// consult lets an Approver answer. It denies the approval if the answer is
// invalid, because the agent would otherwise wait for ever.
func (s *Session) consult(ctx context.Context, approve Approver, a event.Approval) {
	if s.Decide(s.ctx, a.ID, approve(ctx, a).onBehalf(a)) != nil {
		_ = s.Decide(s.ctx, a.ID, refuse(a, "the answer was invalid for this approval, so it was denied"))
	}
}

// onBehalf completes the decision of a Judge or an Approver with the digest of
// the arguments that it was called with, and with the resolver ByPolicy.
func (d Decision) onBehalf(a event.Approval) Decision {
	d.ArgumentsDigest = cmp.Or(d.ArgumentsDigest, a.ArgumentsDigest)
	d.By = cmp.Or(d.By, event.ByPolicy)
	return d
}

// refuse returns a decision that denies an approval.
func refuse(a event.Approval, why string) Decision {
	return Decision{Choice: denial(a), By: event.ByPolicy, Reason: why}
}

// denial returns the id of the approval's choice that denies it. It prefers one
// that lets the turn continue. Without any, the approval is withdrawn.
func denial(a event.Approval) string {
	for _, kind := range []event.ChoiceKind{event.ChoiceDeny, event.ChoiceDenyStop} {
		if i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.Kind == kind }); i >= 0 {
			return a.Choices[i].ID
		}
	}
	return event.ChoiceWithdrawn
}

// decide validates a decision, logs it and then sends it to the agent, or to the
// connections that wait for it if it is about a host. A denial
// that stops the turn, and a withdrawal, cancel the turn.
func (s *Session) decide(id string, d Decision) error {
	lt, a := s.approval(id)
	if lt == nil {
		return errApprovalGone()
	}
	if d.ArgumentsDigest != "" && d.ArgumentsDigest != a.ArgumentsDigest {
		return Fail(ApprovalGone, "the arguments have changed since you read the approval; read it again, then answer")
	}
	i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.ID == d.Choice })
	if i < 0 && d.Choice != event.ChoiceWithdrawn {
		return Fail(InvalidRequest, "choice: not one of the approval's choices")
	}
	if i >= 0 && d.approvesUnseen(a, a.Choices[i].Kind) {
		return Fail(InvalidRequest, "argumentsDigest: required to approve; send the digest of the approval")
	}
	if len(d.UpdatedArguments) > 0 {
		if !a.ArgumentsEditable {
			return Fail(InvalidRequest, "updatedArguments: this approval does not allow changed arguments")
		}
		if !json.Valid(d.UpdatedArguments) {
			return Fail(InvalidRequest, "updatedArguments: is not valid JSON")
		}
	}
	if d.By == "" {
		d.By = event.ByUser
	}
	now := time.Now()
	toAgent := lt.asked[id].reach == nil
	lt.asked[id].maker = d.Maker
	s.stageAll(lt, lt.rules.admit(event.Event{At: now, Body: event.ApprovalResolved{
		ApprovalID: id, Choice: d.Choice, By: d.By, Reason: d.Reason, Rule: d.Maker.Rule, UpdatedArguments: d.UpdatedArguments,
	}}))
	stop := i < 0 || a.Choices[i].Kind == event.ChoiceDenyStop
	if i >= 0 && a.Kind == event.ApprovalTool && !isDenial(a.Choices[i].Kind) && !sameJSON(a.Arguments, d.UpdatedArguments) {
		s.stageAll(lt, lt.rules.admit(event.Event{At: now, Body: edited(a, d.UpdatedArguments)}))
	}
	if stop {
		s.stageAll(lt, lt.rules.withdraw(now, WithdrawnByCancel))
	}
	if err := s.flush(); err != nil {
		return err
	}
	lt.lastEventAt = now
	if stop {
		lt.rules.cancelling, lt.overdue = true, now.Add(s.cfg.InterruptGrace)
	}
	if s.link == nil || !toAgent && !stop {
		return nil // without a link the agent has exited, so its turns are ending
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
	if CodeOf(err) != ApprovalGone { // without its answer the agent would wait for ever
		s.fail(lt, Safe(err))
		s.endTurns(errDismissed())
	}
	return Safe(err)
}

// ArgumentsEdited is the code of the notice that a call runs with other
// arguments than its item has, because its approval changed them.
const ArgumentsEdited = "ARGUMENTS_EDITED"

// maxEdited bounds the changed arguments in a notice, in bytes. The event
// ApprovalResolved has all of them.
const maxEdited = 2000

// edited returns the notice that an approval was given for other arguments.
func edited(a event.Approval, args json.RawMessage) event.Notice {
	return event.Notice{Level: event.LevelInfo, Code: ArgumentsEdited, Message: text.OneLine(cmp.Or(a.ToolName, "The call")+" was allowed with changed arguments: "+string(args), maxEdited)}
}

func isDenial(kind event.ChoiceKind) bool {
	return kind == event.ChoiceDeny || kind == event.ChoiceDenyStop
}

// sameJSON reports whether changed arguments are absent, or the same as args up
// to white space.
func sameJSON(args, changed json.RawMessage) bool {
	var a, b bytes.Buffer
	return len(changed) == 0 || json.Compact(&a, args) == nil && json.Compact(&b, changed) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

func errApprovalGone() *Error {
	return Fail(ApprovalGone, "this approval is resolved, withdrawn or not part of this session; read the session again")
}

// approval returns a pending approval and its turn; nil if there is none.
func (s *Session) approval(id string) (*liveTurn, event.Approval) {
	for _, lt := range s.live {
		if i := lt.rules.pending(id); i >= 0 {
			return lt, lt.rules.asked[i]
		}
	}
	return nil, event.Approval{}
}
