package runnel

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// due returns the time of the next call of tick or expire; zero for none.
func (s *Session) due() time.Time {
	due := s.death
	sooner := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	sooner(s.retry)
	for _, lt := range s.live {
		sooner(lt.overdue)
		sooner(s.stalls(lt))
		sooner(s.budgetDue(lt))
		for _, q := range lt.asked {
			sooner(q.judgeBy)
			sooner(s.expires(q))
		}
	}
	return due
}

// stalls returns when lt will count as stalled; zero if it cannot now.
func (s *Session) stalls(lt *liveTurn) time.Time {
	if s.cfg.StallTimeout <= 0 || lt.prompt != nil || lt.followed || len(lt.rules.asked) > 0 || len(lt.rules.running) > 0 || lt.rules.cancelling {
		return time.Time{}
	}
	return lt.lastEventAt.Add(s.cfg.StallTimeout)
}

// tick carries out everything whose time, as returned by due, has come:
// attempts to reconcile, and the ends of turns and approvals that have waited
// too long.
func (s *Session) tick(now time.Time) {
	if !s.retry.IsZero() && !now.Before(s.retry) {
		if s.reconcile(s.ctx) != nil {
			s.scheduleReconcile()
		}
	}
	for _, lt := range slices.Clone(s.live) {
		s.judgeOverdue(lt, now)
		s.denyOverdue(lt, now)
		if s.find(lt.rules.turn) != lt {
			continue // the turn has ended or the log has failed
		}
		if at := s.stalls(lt); !at.IsZero() && !now.Before(at) {
			s.fail(lt, Fail(AgentStalled, "the agent sent no output for "+s.cfg.StallTimeout.String()+" and was stopped; send again to resume the conversation"))
			s.endTurns(errDismissed())
			continue
		}
		if at := s.budgetDue(lt); !at.IsZero() && !now.Before(at) {
			s.checkBudgets(lt, now)
			s.enforceBudgets()
			if s.find(lt.rules.turn) != lt {
				continue
			}
		}
		if lt.overdue.IsZero() || now.Before(lt.overdue) {
			continue
		}
		if !lt.enforced && s.link != nil {
			s.interruptFailed(lt, now, "The agent did not end the turn within "+s.cfg.InterruptGrace.String()+" of the interrupt. It is stopped; the next prompt starts it again.")
			if s.link == nil {
				return // the log has failed, so the turns have ended
			}
			lt.enforced, lt.overdue = true, now.Add(closeGrace)
			s.link.beginClose(s)
			continue
		}
		s.stageAll(lt, lt.rules.end(now, event.ResponseDone{Status: event.StatusCancelled}))
		s.endTurns(errDismissed())
	}
}

// interruptFailed logs that the agent refused or ignored an interrupt, unless
// the turn has a notice of that already.
func (s *Session) interruptFailed(lt *liveTurn, now time.Time, why string) {
	s.stageAll(lt, lt.rules.admit(event.Event{At: now, Body: event.Notice{
		Level: event.LevelWarning, Code: string(InterruptFailed), Message: why,
	}}))
	_ = s.flush()
}

// errDismissed returns the error of a turn that ends because the session
// stopped its agent for another turn.
func errDismissed() *Error {
	return Fail(ProcessCrash, "the agent was stopped because another of its turns failed or did not end; send again to resume the conversation")
}

// judgeOverdue treats Config.Judge as having passed the approvals whose judgeBy
// is over.
func (s *Session) judgeOverdue(lt *liveTurn, now time.Time) {
	for _, a := range slices.Clone(lt.rules.asked) {
		if q := lt.asked[a.ID]; q != nil && q.judging() && !now.Before(q.judgeBy) {
			s.judged(verdictMsg{id: a.ID})
		}
	}
}

// denyOverdue denies the approvals that have waited too long; see expires.
func (s *Session) denyOverdue(lt *liveTurn, now time.Time) {
	for _, a := range slices.Clone(lt.rules.asked) {
		q := lt.asked[a.ID]
		if q == nil {
			continue
		}
		if at := s.expires(q); at.IsZero() || now.Before(at) {
			continue
		}
		_ = s.decide(a.ID, Decision{Choice: denial(a), By: event.ByTimeout, Reason: "no answer arrived in time"})
	}
}
