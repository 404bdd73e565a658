package codex

import (
	"slices"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// A follower reads a conversation of another process.
type follower struct {
	t         *testing.T
	following runnel.Following
	evs       []event.Event
}

func follow(t *testing.T, p runnel.Provider, thread string) *follower {
	t.Helper()
	f, err := p.(runnel.Follower).Follow(t.Context(), runnel.Conversation{AgentSessionID: thread})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return &follower{t: t, following: f}
}

// until reads events until one of them satisfies holds. what describes that event.
func (f *follower) until(what string, holds func(event.Body) bool) {
	f.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond) // a following is polled
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-tick.C {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s is missing\n%s", what, dump(f.evs))
		}
		more, err := f.following.Next(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		f.evs = append(f.evs, more...)
		if slices.ContainsFunc(more, func(ev event.Event) bool { return holds(ev.Body) }) {
			return
		}
	}
}

// TestFollowedItemsKeepTheirIDs follows a turn of another process whose second
// command ends before its first one. Codex stores the first one later, with an
// earlier start.
func TestFollowedItemsKeepTheirIDs(t *testing.T) {
	r := newRig(t)
	r.Play(calls(shell("until [ -e go ]; do sleep 0.05; done; echo first"), shell("until [ -e early ]; do sleep 0.05; done; echo second")), says("Both."))
	started := 0
	r.Until(func(ev event.Event) bool {
		if b, ok := ev.Body.(event.ItemStart); ok && b.ItemType == event.TypeFunctionCall {
			started++
		}
		return started == 2
	})
	f := follow(t, r.provider(), r.Conn.(*conn).tr.thread)
	shows := func(output string) {
		t.Helper()
		f.until(output, func(b event.Body) bool {
			done, _ := b.(event.ItemDone)
			out, ok := done.FinalItem.(event.FunctionCallOutput)
			return ok && out.Output == output
		})
	}
	r.Write("early", "")
	shows("second\n")
	r.Write("go", "")
	shows("first\n")
	r.FinishTurn("")
	sound(t, f.evs)
	calls := make(map[string]string)
	for _, done := range bodies[event.ItemDone](f.evs) {
		if c, ok := done.FinalItem.(event.FunctionCall); ok {
			if was := calls[c.CallID]; was != "" {
				t.Errorf("%s is shown as %s and as %s", c.CallID, was, done.ItemID)
			}
			calls[c.CallID] = done.ItemID
		}
	}
	if len(calls) != 2 {
		t.Errorf("%d calls, want 2\n%s", len(calls), dump(f.evs))
	}
}

// TestFollowedTurnEndsWhenItIsReverted follows a turn that its user interrupts and
// takes back at once. The conversation no longer has it then.
func TestFollowedTurnEndsWhenItIsReverted(t *testing.T) {
	for name, goesOn := range map[string]bool{"at last": false, "and another one is sent": true} {
		t.Run(name, func(t *testing.T) { followReverted(t, goesOn) })
	}
}

// followReverted follows a turn that is taken back. If goesOn is set, its user sends
// another prompt at once.
func followReverted(t *testing.T, goesOn bool) {
	r := newRig(t)
	r.Play(says("One."))
	r.FinishTurn("")
	thread := r.Conn.(*conn).tr.thread
	r.Conn.Close()
	p := r.provider().(*Provider)
	f := follow(t, p, thread)
	f.until("the first turn", event.Ends)
	err := p.query(t.Context(), runnel.Options{}, func(a *asker) error {
		var started struct{ Turn struct{ ID string } }
		prompt := agentrig.Scenario(calls(shell("echo shown")), fakemodel.Step{Text: "Never.", Hold: "two"})
		if err := a.ask(methodResume, map[string]any{"threadId": thread, "excludeTurns": true}, nil); err != nil {
			return err
		}
		if err := a.ask("turn/start", map[string]any{"threadId": thread, "input": []args{{"type": "text", "text": prompt}}}, &started); err != nil {
			return err
		}
		f.until("the command", func(b event.Body) bool {
			done, ok := b.(event.ItemDone)
			_, isOutput := done.FinalItem.(event.FunctionCallOutput)
			return ok && isOutput
		})
		if err := a.ask("turn/interrupt", map[string]any{"threadId": thread, "turnId": started.Turn.ID}, nil); err != nil {
			return err
		}
		if err := a.ask("thread/revert", map[string]any{"threadId": thread, "beforeTurnId": started.Turn.ID}, nil); err != nil {
			return err
		}
		if goesOn {
			prompt := agentrig.Scenario(says("Three."))
			if err := a.ask("turn/start", map[string]any{"threadId": thread, "input": []args{{"type": "text", "text": prompt}}}, nil); err != nil {
				return err
			}
			f.until("the end of the last turn", func(b event.Body) bool {
				done, ok := b.(event.ResponseDone)
				return ok && done.Status == event.StatusCompleted
			})
			return nil
		}
		f.until("the end of the reverted turn", event.Ends)
		return nil
	})
	if err != nil {
		t.Fatal(detail(err))
	}
	sound(t, f.evs)
	want := []event.TurnStatus{event.StatusCompleted, event.StatusCancelled}
	if goesOn {
		want = append(want, event.StatusCompleted)
	}
	var ends []event.TurnStatus
	for _, done := range bodies[event.ResponseDone](f.evs) {
		ends = append(ends, done.Status)
	}
	if !slices.Equal(ends, want) {
		t.Errorf("the turns ended %v, want %v\n%s", ends, want, dump(f.evs))
	}
}
