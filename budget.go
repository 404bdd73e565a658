package runnel

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Budget bounds what turns use: one turn, or all turns of a session together.
// A field that is zero is no bound.
type Budget struct {
	USD     float64 `json:"usd,omitzero"`     // cost in US dollars, as the agent reports it
	Tokens  int64   `json:"tokens,omitzero"`  // tokens of input and output, as the agent reports them
	Minutes float64 `json:"minutes,omitzero"` // time in which turns run, including that in which approvals wait
}

// The bounds of a budget.
const (
	maxUSD     = 1e6
	maxTokens  = int64(1e12)
	maxMinutes = 60 * 24 * 366.0
)

// IsZero reports whether b bounds nothing.
func (b Budget) IsZero() bool { return b == Budget{} }

// or returns b with the bounds of other that b lacks.
func (b Budget) or(other Budget) Budget {
	return Budget{cmp.Or(b.USD, other.USD), cmp.Or(b.Tokens, other.Tokens), cmp.Or(b.Minutes, other.Minutes)}
}

// time returns the bound of the time; 0 for none.
func (b Budget) time() time.Duration { return time.Duration(b.Minutes * float64(time.Minute)) }

// checkBudget returns the check of one of the options with a budget. An agent
// that does not report what the budget bounds could pass it unnoticed.
func checkBudget(name string, of func(*Options) Budget) func(checked) error {
	return func(c checked) error {
		b := of(c.opt)
		switch {
		case !(b.USD >= 0 && b.USD <= maxUSD):
			return Fail(InvalidRequest, fmt.Sprintf("%s.usd: %v is not a positive amount of at most %d US dollars", name, b.USD, int64(maxUSD)))
		case b.Tokens < 0 || b.Tokens > maxTokens:
			return Fail(InvalidRequest, fmt.Sprintf("%s.tokens: %d is not a positive number of at most %d", name, b.Tokens, maxTokens))
		case !(b.Minutes >= 0 && b.Minutes <= maxMinutes):
			return Fail(InvalidRequest, fmt.Sprintf("%s.minutes: %v is not a positive number of at most %d", name, b.Minutes, int64(maxMinutes)))
		case b.USD != 0 && c.takes != nil && !c.takes.ReportsCost:
			return unreported(c.agent, name+".usd", "cost; use tokens or minutes")
		case b.Tokens != 0 && c.takes != nil && !c.takes.ReportsTokens:
			return unreported(c.agent, name+".tokens", "tokens; use minutes")
		}
		return nil
	}
}

func unreported(agent, option, what string) error {
	return &Error{Code: UnsupportedCapability, Message: option + ": " + agent + " reports no " + what, Details: map[string]any{"option": option}}
}

// A spent is what turns have used.
type spent struct {
	usd    float64
	tokens int64
	time   time.Duration
}

func (s spent) plus(o spent) spent { return spent{s.usd + o.usd, s.tokens + o.tokens, s.time + o.time} }

// note records what a turn has used, if b reports it. A report covers the whole
// turn so far, so it replaces the one before.
func (s *spent) note(b event.Body) {
	tokens, cost := store.Reported(b)
	if tokens != nil {
		s.tokens = tokens.InputTokens + tokens.OutputTokens
	}
	if cost != nil {
		s.usd = *cost
	}
}

// A bound is a part of a budget that is used up.
type bound struct{ name, limit, used string }

// reaches returns the first part of b that s has used up. Without whole, s must
// have used more than the tokens and the cost.
func (s spent) reaches(b Budget, whole bool) (bound, bool) {
	passed := func(c int) bool { return c > 0 || whole && c == 0 }
	switch {
	case b.USD != 0 && passed(cmp.Compare(s.usd, b.USD)):
		return bound{"usd", dollars(b.USD), dollars(s.usd)}, true
	case b.Tokens != 0 && passed(cmp.Compare(s.tokens, b.Tokens)):
		return bound{"tokens", strconv.FormatInt(b.Tokens, 10) + " tokens", strconv.FormatInt(s.tokens, 10)}, true
	case b.Minutes != 0 && s.time >= b.time():
		return bound{"minutes", decimal(b.Minutes) + " minutes", decimal(s.time.Minutes())}, true
	}
	return bound{}, false
}

func dollars(usd float64) string {
	return "$" + strconv.FormatFloat(math.Ceil(usd*1e4)/1e4, 'f', -1, 64)
}

func decimal(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// usedBy returns what a live turn has used.
func usedBy(lt *liveTurn, now time.Time) (out spent) {
	out.note(lt.rules.usage)
	if !lt.rules.at.IsZero() {
		out.time = max(now.Sub(lt.rules.at), 0)
	}
	return out
}

// endedTurnsSpent returns what the turns in the log that have ended have used. It reads
// the log once.
func (s *Session) endedTurnsSpent() (spent, error) {
	if s.spent != nil {
		return *s.spent, nil
	}
	type running struct {
		spent
		since time.Time
	}
	turns, sum := make(map[string]*running), spent{}
	for ev, err := range s.log.Read(s.ctx, s.id, 0) {
		if err != nil {
			return spent{}, err
		}
		if ev.Turn == "" {
			continue
		}
		t := turns[ev.Turn]
		if t == nil {
			t = &running{since: ev.At}
			turns[ev.Turn] = t
		}
		t.note(ev.Body)
		if event.Ends(ev.Body) {
			t.time = max(ev.At.Sub(t.since), 0)
			sum = sum.plus(t.spent)
			delete(turns, ev.Turn)
		}
	}
	s.spent = &sum
	return sum, nil
}

// spend adds a turn, whose terminal event is in the log, to what the session has
// used.
func (s *Session) spend(lt *liveTurn, end event.Event) {
	if s.spent == nil {
		return // endedTurnsSpent reads it from the log
	}
	used := usedBy(lt, end.At)
	used.note(end.Body)
	*s.spent = s.spent.plus(used)
}

// checkSpent fails with BUDGET_EXCEEDED if the session has used up its budget.
func (s *Session) checkSpent() error {
	if s.opt.Budget.IsZero() {
		return nil
	}
	used, err := s.endedTurnsSpent()
	if err != nil {
		return err
	}
	b, over := used.reaches(s.opt.Budget, true)
	if !over {
		return nil
	}
	return &Error{
		Code: BudgetExceeded, Details: map[string]string{"budget": b.name, "limit": b.limit, "used": b.used},
		Message: fmt.Sprintf("the session has used %s of its budget of %s. To continue, set a higher budget.%s in the session's options", b.used, b.limit, b.name),
	}
}

// checkBudgets adds a notice to a turn that passes its budget or that of the
// session. The turn is cancelled later, by enforceBudgets.
func (s *Session) checkBudgets(lt *liveTurn, now time.Time) {
	if lt.followed || lt.rules.ended || lt.rules.overBudget {
		return
	}
	used, whose := usedBy(lt, now), "turn"
	b, over := used.reaches(lt.budget, false)
	if !over && !s.opt.Budget.IsZero() {
		sum, err := s.endedTurnsSpent()
		if err != nil {
			return // the next append fails as well
		}
		for _, other := range s.live {
			sum = sum.plus(usedBy(other, now))
		}
		whose = "session"
		b, over = sum.reaches(s.opt.Budget, false)
	}
	if !over {
		return
	}
	s.stageAll(lt, lt.rules.admit(event.Event{At: now, Body: event.Notice{
		Level: event.LevelWarning, Code: string(BudgetExceeded),
		Message: fmt.Sprintf("The %s has used %s of its budget of %s, so the turn ends.", whose, b.used, b.limit),
	}}))
}

// enforceBudgets cancels the turns that have passed a budget. The caller has
// staged the events that arrived before.
func (s *Session) enforceBudgets() {
	stopped := false
	for _, lt := range s.live {
		if lt.rules.overBudget && !lt.rules.ended && !lt.rules.cancelling {
			s.cancelTurn(lt, time.Now())
			stopped = true
		}
	}
	if stopped {
		_ = s.flush()
	}
}

// budgetDue returns when a turn passes a budget of time; zero for never.
func (s *Session) budgetDue(lt *liveTurn) (due time.Time) {
	if lt.followed || lt.rules.overBudget || lt.rules.cancelling || lt.rules.at.IsZero() {
		return due
	}
	if lt.budget.Minutes != 0 {
		due = lt.rules.at.Add(lt.budget.time())
	}
	if s.opt.Budget.Minutes != 0 {
		if used, err := s.endedTurnsSpent(); err == nil {
			if at := lt.rules.at.Add(s.opt.Budget.time() - used.time); due.IsZero() || at.Before(due) {
				due = at
			}
		}
	}
	return due
}
