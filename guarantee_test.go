package runnel_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

func withApprover(t *testing.T, approve runnel.Approver, cfg runnel.Config, steps ...script.Step) (*runnel.Session, *runnel.Memory) {
	t.Helper()
	log := new(runnel.Memory)
	cfg.ID, cfg.Log = "s", log
	p := &script.Provider{Script: script.Script{Steps: steps}}
	s, err := runnel.Open(t.Context(), p, runnel.Options{Approve: approve}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

func TestAnApproverMayCloseTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *runnel.Session
		s, _ = withApprover(t, func(_ context.Context, a event.Approval) runnel.Decision {
			_ = s.Close()
			return runnel.Decision{Choice: a.Choices[0].ID}
		}, runnel.Config{}, ask)
		res, err := send(t, s).Wait(t.Context())
		if err != nil || res.Status != event.StatusCancelled {
			t.Fatal(res, err)
		}
		<-s.Done()
	})
}

func TestBlockedApproverDoesNotBlockOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s, _ := withApprover(t, func(context.Context, event.Approval) runnel.Decision {
			<-answer // like an approver that reads from a terminal
			return runnel.Decision{}
		}, runnel.Config{}, ask)
		send(t, s)
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		close(answer)
	})
}

func TestInvalidAnswerOfApproverDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []runnel.Decision{{}, {Choice: "maybe"}, {Choice: "allow", ArgumentsDigest: "other"}} {
			s, log := withApprover(t, func(context.Context, event.Approval) runnel.Decision { return d }, runnel.Config{}, ask)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			if _, err := send(t, s).Wait(ctx); err != nil {
				t.Errorf("%+v: %v", d, err)
			}
			stop()
			if got := trace(t, log, "s"); !strings.Contains(got, `"choice":"deny","by":"policy"`) {
				t.Errorf("%+v: %s", d, got)
			}
			_ = s.Close()
		}
	})
}

func TestApproverContextEndsWhenApprovalIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan error, 1)
		s, _ := withApprover(t, func(ctx context.Context, a event.Approval) runnel.Decision {
			<-ctx.Done()
			heard <- ctx.Err()
			return runnel.Decision{Choice: "allow"}
		}, runnel.Config{}, ask)
		defer s.Close()
		turn := send(t, s)
		synctest.Wait()
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = turn.Wait(t.Context())
		synctest.Wait()
		select {
		case <-heard:
		default:
			t.Fatal("the question is withdrawn and its approver does not know")
		}
	})
}

func TestEndedTurnDoesNotRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		log := new(runnel.Memory)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		turn := send(t, s)
		for range 2 {
			agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
			agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
			synctest.Wait()
		}
		if got := trace(t, log, "s"); strings.Count(got, "response_done") != 1 || strings.Count(got, "response_start") != 1 {
			t.Error(got)
		}
		_, err := s.Send(t.Context(), runnel.Input{Text: "again", Turn: turn.ID})
		if runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("a prompt under the id of a turn that is over: %v", err)
		}
	})
}

// If the session stops the agent because of one turn, the agent's other turn
// ends, too.
func TestStoppedAgentLeavesNoTurnOpen(t *testing.T) {
	for name, end := range map[string]func(*runnel.Session, *stubborn){
		"stall":  func(*runnel.Session, *stubborn) {},
		"cancel": func(s *runnel.Session, _ *stubborn) { _ = s.Cancel(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := newStubborn(time.Hour)
				log := new(runnel.Memory)
				s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log, StallTimeout: 90 * time.Second})
				turn := send(t, s)
				end(s, agent)
				agent.events <- event.Event{Turn: "own", Body: event.ResponseStart{}}
				agent.events <- event.Event{Turn: "own", Body: event.ItemStart{ItemID: "own:1:0", ItemType: event.TypeFunctionCall, Name: "Bash", CallID: "c"}}
				_, _ = turn.Wait(t.Context())
				time.Sleep(time.Minute) // virtual
				if st := s.Status(); st.Turn != "" {
					t.Errorf("turn %q of an agent that is gone still runs:\n%s", st.Turn, trace(t, log, "s"))
				}
				_ = s.Close()
			})
		})
	}
}

func TestTheLastWordsOfAnAgentThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(time.Minute)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{InterruptGrace: time.Second})
		first := send(t, s)
		_ = s.Cancel(t.Context())
		time.Sleep(1100 * time.Millisecond) // virtual; the session is stopping the agent
		agent.events <- event.Event{Turn: first.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		if _, err := first.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := send(t, s) // waits until the previous agent has exited
		agent.events <- event.Event{Turn: "own", Body: event.ResponseStart{}}
		time.Sleep(2 * time.Minute)
		agent.events <- event.Event{Turn: second.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		_, _ = second.Wait(t.Context())
		synctest.Wait()
		if st := s.Status(); st.Turn != "" {
			t.Errorf("turn %q of the agent before still runs", st.Turn)
		}
		_ = s.Close()
	})
}

// After a failed append, the session closes the turn once the log works again,
// without waiting for the next Send.
func TestTurnIsClosedAfterLogRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(failing)
		agent := newStubborn(0)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		turn := send(t, s)
		log.set(errors.New("disk full"))
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		_, _ = turn.Wait(t.Context())
		time.Sleep(time.Hour) // virtual
		log.set(nil)
		time.Sleep(2 * time.Minute)
		if st, _ := log.State(t.Context(), "s"); len(st.Open) > 0 {
			t.Fatalf("still open: %v", st.Open)
		}
		if got := trace(t, log, "s"); strings.Count(got, "response_error") != 1 {
			t.Fatal(got)
		}
	})
}

func TestSessionLeavesLogToAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(failing)
		agent := newStubborn(0)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		turn := send(t, s)
		log.set(runnel.ErrConflict)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
		_, _ = turn.Wait(t.Context())
		log.set(nil)
		time.Sleep(time.Hour) // virtual
		if st, _ := log.State(t.Context(), "s"); len(st.Open) != 1 {
			t.Fatalf("closed a turn that is now another's: %v", st.Open)
		}
	})
}

// nameless is an agent whose errors have no code.
type nameless struct{ runnel.Conn }

func (nameless) Name() string                                                { return "nameless" }
func (n nameless) Open(context.Context, runnel.Options) (runnel.Conn, error) { return n, nil }
func (nameless) Next(context.Context) (event.Event, error) {
	return event.Event{}, &runnel.Error{Err: io.ErrUnexpectedEOF}
}
func (nameless) Prompt(context.Context, string, runnel.Input) error { return &runnel.Error{} }
func (nameless) Close() error                                       { return nil }

func TestErrorWithoutCodeEndsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runnel.Open(t.Context(), nameless{}, runnel.Options{}, runnel.Config{Dormant: true})
		defer s.Close()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := send(t, s).Wait(ctx); runnel.CodeOf(err) != runnel.Internal || errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// starting is an agent that takes a while to start, and can change its model
// if live is set.
type starting struct {
	*stubborn
	ready  chan struct{}
	models []string // models with which it was started
}

func (a *starting) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	a.models = append(a.models, opt.Model)
	<-a.ready
	return a.stubborn.Open(ctx, opt)
}

func TestSettingsReachAnAgentThatIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := &starting{stubborn: newStubborn(0), ready: make(chan struct{})}
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{Model: "old"}, runnel.Config{Dormant: true})
		defer s.Close()
		turn := send(t, s)
		synctest.Wait()
		if err := s.Set(t.Context(), runnel.Settings{Model: "new"}); err != nil {
			t.Fatal(err)
		}
		close(agent.ready)
		synctest.Wait()
		if last := agent.models[len(agent.models)-1]; last != "new" {
			t.Errorf("it runs with %v", agent.models)
		}
		agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// decideFailer is an agent whose Decide fails.
type decideFailer struct{ *stubborn }

func (a decideFailer) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := a.stubborn.Open(ctx, opt)
	return decideFailerConn{c}, err
}

type decideFailerConn struct{ runnel.Conn }

func (decideFailerConn) Decide(context.Context, string, runnel.Decision) error {
	return errors.New("the pipe is full")
}

func TestUndeliverableAnswerEndsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, err := runnel.Open(t.Context(), decideFailer{agent}, runnel.Options{}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn := send(t, s)
		agent.events <- event.Event{Turn: turn.ID, Body: event.ApprovalRequested{Approval: event.Approval{
			ID: "a", Kind: event.ApprovalTool, Choices: []event.Choice{{ID: "yes", Kind: event.ChoiceAllowOnce}},
		}}}
		synctest.Wait()
		if err := s.Decide(t.Context(), "a", runnel.Decision{Choice: "yes"}); runnel.CodeOf(err) != runnel.Internal {
			t.Error(err)
		}
		if _, err := turn.Wait(t.Context()); err == nil {
			t.Error("the turn ended well")
		}
	})
}

// A cancelled call no longer suspends the stall timeout.
func TestStallAfterACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{StallTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn := send(t, s)
		id := turn.ID + ":1:0"
		agent.events <- event.Event{Turn: turn.ID, Body: event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCall, CallID: "c", Name: "n"}}
		agent.events <- event.Event{Turn: turn.ID, Body: event.ItemCancelled{ItemID: id}}
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.AgentStalled {
			t.Fatal(err)
		}
	})
}

// If an agent reports more than maxHeld facts before its response, the session
// itself starts the response.
func TestFactsBeforeTheResponseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn := send(t, s)
		for range 20 {
			agent.events <- event.Event{Turn: turn.ID, Body: event.Notice{Level: event.LevelInfo, Code: "RETRYING"}}
		}
		synctest.Wait()
		if head := s.Status().Head; head != 2+1+20 {
			t.Errorf("head %d", head)
		}
	})
}
