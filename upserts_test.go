package runnel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store/memory"
	"github.com/runnel-dev/runnel/upsert"
)

// shown returns a short description of an upsert or a turn event.
func shown(out upsert.Out) string {
	switch o := out.(type) {
	case upsert.Upsert:
		s := fmt.Sprintf("%s %s", o.Type, o.Status)
		if o.Message != nil {
			s += " " + string(o.Message.Origin) + ":" + o.Message.Content
		}
		if o.ErrorCode != "" {
			s += " " + o.ErrorCode + " " + o.ErrorMessage
		}
		return s
	case upsert.TurnEvent:
		return strings.TrimSpace(fmt.Sprintf("%s %s%s", o.Type, o.Status, o.ErrorCode))
	}
	return fmt.Sprintf("%T", out)
}

// slowly emits one word per second.
var slowly = script.Step{Text: "one two three", Rate: 1}

func TestRunUpsertsAreWholeItemsToTheEndOfTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, slowly)
		for range 2 { // live, and afterwards
			var got []string
			for out, err := range run.Upserts(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if s := shown(out); !strings.HasPrefix(s, "message update") {
					got = append(got, s)
				}
			}
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "message create") })
			want := []string{"message complete user:hi", "turn_started", "message complete agent:one two three", "turn_complete completed"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// Text that does not cross a threshold waits at most one second.
func TestRunUpsertsArePacedByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, script.Step{Text: "a b c d e f g h", Rate: 5})
		begin, last := time.Now(), time.Duration(0)
		var partial []string
		for out := range run.Upserts(t.Context()) {
			if u, ok := out.(upsert.Upsert); ok && u.Message.Origin == event.OriginAgent {
				partial = append(partial, string(u.Status)+" "+u.Message.Content)
				if now := time.Since(begin); now-last > 1400*time.Millisecond {
					t.Errorf("nothing came for %v", now-last)
				} else {
					last = now
				}
			}
		}
		if len(partial) < 3 || partial[0] != "create a " || partial[len(partial)-1] != "complete a b c d e f g h" {
			t.Errorf("got %q", partial)
		}
	})
}

func TestHandlersSeeTheRunInOrderBeforeWaitReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, slowly)
		var got []string
		r := run.Handle(runnel.Handlers{
			OnUpsert: func(u upsert.Upsert) {
				if u.Status == upsert.StatusComplete {
					time.Sleep(time.Minute) // a slow reader delays only Wait
					got = append(got, shown(u))
				}
			},
			OnTurn: func(te upsert.TurnEvent) { got = append(got, shown(te)) },
		})
		run.Handle(runnel.Handlers{})
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"message complete user:hi", "turn_started", "message complete agent:one two three", "turn_complete completed"}
		if !slices.Equal(got, want) || r.Err() != nil {
			t.Errorf("got %q, want %q; %v", got, want, r.Err())
		}
		<-r.Done()
	})
}

func TestDestroyClosesOpenItemsWithItsReason(t *testing.T) {
	for reason, want := range map[string]string{
		"the window was closed": "message error agent:one two  PROTOCOL_ERROR the window was closed",
		"process_death":         "message error agent:one two  PROCESS_CRASH the agent ended before this was finished",
		"timeout":               "message error agent:one two  TIMEOUT time was up before this was finished",
		"user_cancel":           "message create agent:one ",
	} {
		synctest.Test(t, func(t *testing.T) {
			run := start(t, runnel.Options{}, slowly)
			last := ""
			r := run.Handle(runnel.Handlers{OnUpsert: func(u upsert.Upsert) { last = shown(u) }, OnTurn: func(te upsert.TurnEvent) { last = shown(te) }})
			time.Sleep(2*time.Second + 100*time.Millisecond) // fake: "two" waits for its turn
			r.Destroy(reason)
			r.Destroy("another reason")
			<-r.Done()
			destroyed, ok := errors.AsType[runnel.Destroyed](r.Err())
			if last != want || !ok || destroyed.Reason != reason {
				t.Errorf("%s: the last was %q, want %q; %v", reason, last, want, r.Err())
			}
			if res, err := run.Wait(t.Context()); err != nil || res.FinalText != "one two three" {
				t.Errorf("the run did not go on: %+v, %v", res, err)
			}
		})
	}
}

func TestSessionUpsertsGoOnAfterAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script.Provider{Script: script.Script{Steps: []script.Step{slowly}}}
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		send := func() {
			turn, err := s.Send(t.Context(), runnel.Text("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := turn.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		send()
		past := []string{"message complete user:hi", "turn_started", "message complete agent:one two three", "turn_complete completed"}
		var got []string
		at := int64(0)
		for out, err := range s.Upserts(t.Context(), 0) { // each ended item is yielded once
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, shown(out))
			if te, ok := out.(upsert.TurnEvent); ok && te.Type == upsert.TurnComplete {
				at = te.Seq
				break
			}
		}
		if !slices.Equal(got, past) {
			t.Errorf("got %q, want %q", got, past)
		}
		var again []string
		r := s.Handle(at, runnel.Handlers{
			OnUpsert: func(u upsert.Upsert) {
				if u.Status == upsert.StatusComplete {
					again = append(again, shown(u))
				}
			},
			OnTurn: func(te upsert.TurnEvent) { again = append(again, shown(te)) },
		})
		send()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		<-r.Done() // the session has ended
		if !slices.Equal(again, past) || r.Err() != nil {
			t.Errorf("after %d got %q, want %q; %v", at, again, past, r.Err())
		}
	})
}

func TestUpsertsYieldTheCauseWhenTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, script.Step{Text: "one two", Rate: 1}, hang)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(cause) })
		last := ""
		var failed error
		for out, err := range run.Upserts(ctx) {
			if failed = err; err == nil {
				last = shown(out)
			}
		}
		if last != "message create agent:one " || failed != cause {
			t.Errorf("the last was %q, then %v", last, failed)
		}
	})
}

// full is a log that accepts a number of appends, the field left, and then
// fails.
type full struct {
	memory.Log
	left int
}

func (f *full) Append(ctx context.Context, session string, after int64, evs ...event.Event) error {
	if f.left--; f.left < 0 {
		return errors.New("disk full")
	}
	return f.Log.Append(ctx, session, after, evs...)
}

func TestUpsertsOfALostTurnAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script.Provider{Script: script.Script{Steps: []script.Step{slowly}}}
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{Log: &full{left: 4}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn, err := s.Send(t.Context(), runnel.Text("hi"))
		if err != nil {
			t.Fatal(err)
		}
		var last string
		var failed error
		for out, err := range turn.Upserts(t.Context()) {
			if failed = err; err == nil {
				last = shown(out)
			}
		}
		if !strings.HasPrefix(last, "message error agent:one") || runnel.CodeOf(failed) != runnel.StoreUnavailable {
			t.Errorf("the last was %q, then %v", last, failed)
		}
	})
}

// A reader of a long turn stops after every few frames and resumes from its
// position. In the end it has the same items as a reader that never stopped.
func TestSessionUpsertsOfALongTurnResumeAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("word ", 6000)
		tools := []script.Tool{{Name: "first", Output: "1"}, {Name: "second", Output: "2"}} // the first call ends last
		p := &script.Provider{Script: script.Script{Steps: []script.Step{{Text: text}, {Tools: tools}, {Text: "second"}}}}
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn, err := s.Send(t.Context(), runnel.Text("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		read := func(screen map[string]string, after int64, most int) (at int64) {
			at = after
			for out, err := range s.Upserts(t.Context(), after) {
				if err != nil {
					t.Fatal(err)
				}
				switch o := out.(type) {
				case upsert.Upsert:
					if at = max(at, o.Seq); o.Message != nil {
						screen[o.ItemID] = o.Message.Content
					} else {
						screen[o.ItemID] = fmt.Sprintln(o.ToolCall.ToolName, o.Status)
					}
				case upsert.TurnEvent:
					if at = max(at, o.Seq); o.Type == upsert.TurnComplete {
						return at
					}
				}
				if most--; most == 0 {
					return at
				}
			}
			return at
		}
		want := make(map[string]string)
		end := read(want, 0, 0)
		if len(want) != 5 || end != s.Status().Head {
			t.Fatalf("%d items up to %d of %d", len(want), end, s.Status().Head)
		}
		for most := 1; most <= 6; most++ {
			got := make(map[string]string)
			at := read(got, 0, most)
			for at < end {
				at = read(got, at, most)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%d at a time: got %d items", most, len(got))
			}
		}
	})
}
