package runnel_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// used is a report of a turn's usage.
func used(turn string, tokens int64, usd float64) event.Event {
	return event.Event{Turn: turn, Body: event.UsageUpdated{Usage: &event.Usage{InputTokens: tokens - 1, OutputTokens: 1}, CostUSD: &usd}}
}

// budgetNotices returns the notices about budgets in a log.
func budgetNotices(t *testing.T, log *runnel.Memory) (out []string) {
	t.Helper()
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := ev.Body.(event.Notice); ok && n.Code == string(runnel.BudgetExceeded) {
			out = append(out, n.Message)
		}
	}
	return out
}

func openWith(t *testing.T, agent runnel.Provider, opt runnel.Options, cfg runnel.Config) (*runnel.Session, *runnel.Memory) {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = new(runnel.Memory)
	}
	cfg.ID = "s"
	s, err := runnel.Open(t.Context(), agent, opt, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, cfg.Log.(*runnel.Memory)
}

func wantCancelled(t *testing.T, turn *runnel.Turn) {
	t.Helper()
	if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
		t.Fatalf("the turn ended with %+v, %v", res, err)
	}
}

func TestTurnThatPassesABudgetIsCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		opt  runnel.Options
		want string
	}{
		"tokens of the turn":    {runnel.Options{TurnBudget: runnel.Budget{Tokens: 100}}, "The turn has used 101 of its budget of 100 tokens, so the turn ends."},
		"cost of the turn":      {runnel.Options{TurnBudget: runnel.Budget{USD: 0.5}}, "The turn has used $0.75 of its budget of $0.5, so the turn ends."},
		"tokens of the session": {runnel.Options{Budget: runnel.Budget{Tokens: 100}}, "The session has used 101 of its budget of 100 tokens, so the turn ends."},
		"cost of the session":   {runnel.Options{Budget: runnel.Budget{USD: 0.5}}, "The session has used $0.75 of its budget of $0.5, so the turn ends."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := newStubborn(0)
				s, log := openWith(t, agent, tt.opt, runnel.Config{})
				turn := send(t, s)
				agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
				agent.events <- used(turn.ID, 100, 0.5) // as much as the budget
				synctest.Wait()
				if n := budgetNotices(t, log); len(n) > 0 {
					t.Fatalf("%q before the budget is passed", n)
				}
				agent.events <- used(turn.ID, 101, 0.75)
				wantCancelled(t, turn)
				if got := budgetNotices(t, log); len(got) != 1 || got[0] != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestTimeOfABudgetEndsATurn(t *testing.T) {
	for name, opt := range map[string]runnel.Options{
		"of the turn":    {TurnBudget: runnel.Budget{Minutes: 1.5}},
		"of the session": {Budget: runnel.Budget{Minutes: 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := newStubborn(0)
				s, log := openWith(t, agent, opt, runnel.Config{})
				began := time.Now()
				wantCancelled(t, send(t, s))
				if took := time.Since(began); took < 90*time.Second || took > 100*time.Second {
					t.Errorf("the turn took %v", took)
				}
				if got := budgetNotices(t, log); len(got) != 1 || !strings.HasSuffix(got[0], "has used 1.5 of its budget of 1.5 minutes, so the turn ends.") {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

func TestUsedUpSessionRefusesPromptsUntilItsBudgetIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, log := openWith(t, agent, runnel.Options{Budget: runnel.Budget{Tokens: 100}}, runnel.Config{})
		turn := send(t, s)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		agent.events <- used(turn.ID, 100, 0)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
			t.Fatalf("%+v, %v", res, err)
		}
		refused := func(s *runnel.Session) {
			t.Helper()
			if _, err := s.Send(t.Context(), runnel.Text("more")); runnel.CodeOf(err) != runnel.BudgetExceeded || !strings.Contains(err.Error(), "has used 100 of its budget of 100 tokens. To continue, set a higher budget.tokens") {
				t.Errorf("the prompt: %v", err)
			}
			if err := s.CheckSettings(t.Context(), runnel.Settings{}); runnel.CodeOf(err) != runnel.BudgetExceeded {
				t.Errorf("the check: %v", err)
			}
		}
		refused(s)
		_ = s.Close()
		agent = newStubborn(0) // another process reads from the log what the session has used
		s, _ = openWith(t, agent, runnel.Options{Resume: "agent-1", Budget: runnel.Budget{Tokens: 100, Minutes: 60}}, runnel.Config{Log: log, Dormant: true})
		refused(s)
		if err := s.Set(t.Context(), runnel.Settings{Budget: runnel.Budget{Tokens: 150}}); err != nil {
			t.Fatal(err)
		}
		turn = send(t, s)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		agent.events <- used(turn.ID, 50, 0)
		synctest.Wait()
		if n := budgetNotices(t, log); len(n) > 0 {
			t.Errorf("%q", n)
		}
		agent.events <- used(turn.ID, 51, 0)
		wantCancelled(t, turn)
	})
}

func TestTurnCanHaveABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, log := openWith(t, agent, runnel.Options{TurnBudget: runnel.Budget{Tokens: 1000, Minutes: 10}}, runnel.Config{})
		turn, err := s.SendWith(t.Context(), runnel.Text("hi"), runnel.Settings{TurnBudget: runnel.Budget{Tokens: 10}})
		if err != nil {
			t.Fatal(err)
		}
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		agent.events <- used(turn.ID, 11, 0)
		wantCancelled(t, turn)
		turn = send(t, s)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		agent.events <- used(turn.ID, 11, 0)
		synctest.Wait()
		if n := len(budgetNotices(t, log)); n != 1 {
			t.Errorf("%d notices", n)
		}
	})
}

// A cost that the agent reports only at the end of its turn passes the budget
// when nothing is left to cancel.
func TestCostAtTheEndOfATurnIsReportedInTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, log := openWith(t, agent, runnel.Options{Budget: runnel.Budget{USD: 0.5}}, runnel.Config{})
		turn := send(t, s)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		usd := 0.75
		agent.events <- event.Event{Turn: turn.ID, Body: event.UsageUpdated{CostUSD: &usd}}
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		if _, err := turn.Wait(t.Context()); err != nil || len(budgetNotices(t, log)) != 1 {
			t.Errorf("%v, %q", err, budgetNotices(t, log))
		}
		if _, err := s.Send(t.Context(), runnel.Text("more")); runnel.CodeOf(err) != runnel.BudgetExceeded {
			t.Errorf("the next prompt: %v", err)
		}
	})
}

// bare is an agent that reports neither tokens nor costs.
type bare struct{ runnel.Provider }

func (bare) Takes() runnel.Takes { return runnel.Takes{} }

func TestBudgetsThatCannotBeEnforcedAreRefused(t *testing.T) {
	agent := bare{newStubborn(0)}
	for _, tt := range []struct {
		budget runnel.Budget
		code   runnel.Code
		want   string
	}{
		{runnel.Budget{USD: 1}, runnel.UnsupportedCapability, "udget.usd: "},
		{runnel.Budget{Tokens: 1}, runnel.UnsupportedCapability, "udget.tokens: "},
		{runnel.Budget{Minutes: 1}, "", ""},
		{runnel.Budget{Minutes: -1}, runnel.InvalidRequest, "udget.minutes: -1 is not"},
		{runnel.Budget{Tokens: -1}, runnel.InvalidRequest, "udget.tokens: -1 is not"},
		{runnel.Budget{USD: math.NaN()}, runnel.InvalidRequest, "udget.usd: NaN is not"},
		{runnel.Budget{USD: math.Inf(1)}, runnel.InvalidRequest, "udget.usd: +Inf is not"},
	} {
		for _, opt := range []runnel.Options{{Budget: tt.budget}, {TurnBudget: tt.budget}} {
			_, err := runnel.CheckOptions(agent, opt, nil)
			if runnel.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v", opt, err)
			}
		}
	}
	if _, err := runnel.TurnSettings(agent, runnel.Options{Budget: runnel.Budget{Minutes: 1}}); runnel.CodeOf(err) != runnel.UnsupportedCapability {
		t.Errorf("the session's budget for one turn: %v", err)
	}
}

// TestTimeOfABudgetGoesOnAfterATakeover leaves a turn to another process. Its
// time counts from its beginning, and so does that of a turn with a budget of
// its own.
func TestTimeOfABudgetGoesOnAfterATakeover(t *testing.T) {
	for name, tt := range map[string]struct {
		opt runnel.Options
		own runnel.Budget
	}{
		"of each turn":   {opt: runnel.Options{TurnBudget: runnel.Budget{Minutes: 5}}},
		"of the session": {opt: runnel.Options{Budget: runnel.Budget{Minutes: 5}}},
		"of this turn":   {own: runnel.Budget{Minutes: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{hang}}}}
				log := new(runnel.Memory)
				tt.opt.Resume = "agent-1"
				s, err := runnel.Open(t.Context(), k, tt.opt, runnel.Config{ID: "s", Log: log})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := s.SendWith(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}, runnel.Settings{TurnBudget: tt.own}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if !s.Detach(t.Context()) {
					t.Fatal("the agent cannot be left")
				}
				time.Sleep(time.Minute)
				s, err = runnel.Open(t.Context(), k, tt.opt, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true, TurnBudget: func(turn string) runnel.Budget {
					if turn != adoptedTurn {
						t.Errorf("asked for the turn %q", turn)
					}
					return tt.own
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for ev, err := range runnel.Follow(t.Context(), log, "s", 0) {
					if err != nil {
						t.Fatal(err)
					}
					if !event.Ends(ev.Body) {
						continue
					}
					if done, ok := ev.Body.(event.ResponseDone); !ok || done.Status != event.StatusCancelled {
						t.Errorf("the turn ended with %+v", ev.Body)
					}
					break
				}
				if took := time.Since(began); took < 5*time.Minute || took > 5*time.Minute+10*time.Second {
					t.Errorf("the turn took %v", took)
				}
				if n := budgetNotices(t, log); len(n) != 1 {
					t.Errorf("%q", n)
				}
			})
		})
	}
}
