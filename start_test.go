package runnel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// heldAgent is a scripted agent that starts once the test closes may.
type heldAgent struct {
	script.Provider
	starts int
	may    chan struct{}
	wrong  error
}

func (p *heldAgent) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	p.starts++
	select {
	case <-p.may:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.wrong != nil {
		return nil, p.wrong
	}
	return p.Provider.Open(ctx, opt)
}

func dormant(t *testing.T, p runnel.Provider) (*runnel.Session, *runnel.Memory) {
	t.Helper()
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log, Dormant: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, log
}

// All concurrent calls of Start, and a prompt sent meanwhile, wait for the same
// start of the agent. A caller whose context ends does not stop it.
func TestStartStartsTheAgentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &heldAgent{Provider: script.Provider{Script: script.Script{Steps: []script.Step{say}}}, may: make(chan struct{})}
		s, _ := dormant(t, p)
		impatient, leave := context.WithCancel(t.Context())
		answers := make(chan error)
		for _, ctx := range []context.Context{t.Context(), impatient, t.Context()} {
			go func() { answers <- s.Start(ctx) }()
		}
		synctest.Wait()
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		turn := send(t, s)
		close(p.may)
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
			t.Errorf("the turn ended %+v, %v", res, err)
		}
		if err := s.Start(t.Context()); err != nil || p.starts != 1 {
			t.Errorf("%d starts, %v", p.starts, err)
		}
	})
}

// Start returns the error of an agent that did not start, and logs nothing. The
// next Start tries again.
func TestStartReturnsTheErrorOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &heldAgent{may: make(chan struct{}), wrong: runnel.Fail(runnel.AgentNotLoggedIn, "log in")}
		close(p.may)
		s, log := dormant(t, p)
		if err := s.Start(t.Context()); runnel.CodeOf(err) != runnel.AgentNotLoggedIn {
			t.Errorf("got %v", err)
		}
		if got := trace(t, log, "s"); got != "" {
			t.Errorf("the log has\n%s", got)
		}
		p.wrong = nil
		if err := s.Start(t.Context()); err != nil || !s.Status().AgentAlive {
			t.Errorf("after the login: %v", err)
		}
	})
}

// If a session is closed while its agent starts, pending calls of Start return
// an error.
func TestCloseEndsTheWaitForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := dormant(t, &heldAgent{may: make(chan struct{})})
		answer := make(chan error)
		go func() { answer <- s.Start(t.Context()) }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err == nil {
			t.Error("the agent of a session that has ended is said to run")
		}
		if err := s.Start(t.Context()); runnel.CodeOf(err) != runnel.SessionDead {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestRefusedPromptIsATurnThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, hang)
		why := runnel.Fail(runnel.InvalidRequest, "model: no longer offered")
		in := runnel.Input{Text: "hi", Turn: "0192f0c1-7d5e-7c3a-9d0e-000000000001"}
		running := send(t, s)
		if err := s.FailPrompt(t.Context(), in, why); runnel.CodeOf(err) != runnel.TurnInProgress {
			t.Errorf("while a turn runs: %v", err)
		}
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := running.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call finds that the turn has ended
			if err := s.FailPrompt(t.Context(), in, why); err != nil {
				t.Error(err)
			}
		}
		var got []string
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Turn != in.Turn {
				continue
			}
			got = append(got, event.Type(ev.Body))
			if b, ok := ev.Body.(event.ResponseError); ok && (b.Error.Code != "INVALID_REQUEST" || b.Error.Message != why.Message) {
				t.Errorf("the turn ended %+v", b)
			}
		}
		if d := cmp.Diff([]string{"item_start", "item_done", "response_start", "response_error"}, got); d != "" {
			t.Errorf("the log (-want +got):\n%s", d)
		}
	})
}

// unsure is a log whose next append reports an error. Depending on the test,
// that append stores the events nevertheless or stores nothing.
type unsure struct {
	runnel.Memory
	fails, stores bool
}

func (l *unsure) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if !l.fails {
		return l.Memory.Append(ctx, session, head, evs...)
	}
	l.fails = false
	if l.stores {
		if err := l.Memory.Append(ctx, session, head, evs...); err != nil {
			return err
		}
	}
	return errors.New("the disk is gone")
}

// FailPrompt fails while it logs the turn of a rejected prompt, and is called
// again. The log then has the end of the turn once, and the session continues.
func TestRefusedTurnEndsOnceAlthoughTheLogFails(t *testing.T) {
	for name, stores := range map[string]bool{"nothing was stored": false, "all was stored": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &unsure{stores: stores}
				open := func() *runnel.Session {
					p := &script.Provider{Script: script.Script{Steps: []script.Step{say}}}
					s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log, Dormant: true})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := open()
				in := runnel.Input{Text: "hi", Turn: "0192f0c1-7d5e-7c3a-9d0e-000000000001"}
				refuse := func(when string, want runnel.Code) {
					if err := s.FailPrompt(t.Context(), in, runnel.Fail(runnel.InvalidRequest, "model: no longer offered")); runnel.CodeOf(err) != want {
						t.Errorf("%s: %v, want %q", when, err, want)
					}
				}
				log.fails = true
				refuse("while the log fails", runnel.StoreUnavailable)
				refuse("afterwards", "")
				refuse("once more", "")
				if _, err := send(t, s).Wait(t.Context()); err != nil {
					t.Errorf("the next prompt: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open()
				refuse("after reopening", "")
				if _, err := send(t, s).Wait(t.Context()); err != nil {
					t.Errorf("the next prompt after reopening: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				var got []string
				for ev, err := range log.Read(t.Context(), "s", 0) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Turn == in.Turn {
						got = append(got, event.Type(ev.Body))
					}
				}
				if d := cmp.Diff([]string{"item_start", "item_done", "response_start", "response_error"}, got); d != "" {
					t.Errorf("the log (-want +got):\n%s", d)
				}
			})
		})
	}
}
