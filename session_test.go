package runnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/providertest"
	"github.com/runnel-dev/runnel/provider/script"
)

// trace renders the events of a session's log, one per line, without times and
// with stable turn names.
func trace(t *testing.T, log runnel.Log, session string) string {
	t.Helper()
	var b strings.Builder
	turns := map[string]string{}
	for ev, err := range log.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := turns[ev.Turn]; !ok && ev.Turn != "" {
			turns[ev.Turn] = fmt.Sprintf("T%d", len(turns)+1)
		}
		data, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		var back event.Event
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		payload, _ := event.MarshalBody(ev.Body)
		line := string(payload)
		for id, name := range turns {
			line = strings.ReplaceAll(line, id, name)
		}
		fmt.Fprintf(&b, "%d %s\n", ev.Seq, line)
	}
	return b.String()
}

func open(t *testing.T, cfg runnel.Config, steps ...script.Step) (*runnel.Session, *runnel.Memory) {
	t.Helper()
	log := new(runnel.Memory)
	cfg.ID, cfg.Log = "s", log
	p := &script.Provider{Script: script.Script{Steps: steps}}
	s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, log
}

func send(t *testing.T, s *runnel.Session) *runnel.Turn {
	t.Helper()
	turn, err := s.Send(t.Context(), runnel.Text("hi"))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

var (
	say  = script.Step{Text: "hello you"}
	hang = script.Step{Hang: true}
	die  = script.Step{Crash: true}
	ask  = script.Step{Tool: &script.Tool{Name: "Bash", Output: "ok", Ask: &script.Ask{Title: "rm -rf"}}}
)

func TestATurnFromPromptToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, say)
		res, err := send(t, s).Wait(t.Context()) // no reader exists yet; Wait must not block
		if err != nil || res.Status != event.StatusCompleted || res.FinalText != "hello you" {
			t.Fatal(res, err)
		}
		want := `1 {"type":"item_start","itemId":"T1:0:0","itemType":"message"}
2 {"type":"item_done","itemId":"T1:0:0","finalItem":{"type":"message","content":"hi","origin":"user"}}
3 {"type":"response_start","modelId":"scripted","providerId":"script"}
4 {"type":"session_updated","agentSessionId":"agent-1","modelId":"scripted"}
5 {"type":"item_start","itemId":"T1:1:0","itemType":"message"}
6 {"type":"item_delta","itemId":"T1:1:0","deltaContent":"hello "}
7 {"type":"item_delta","itemId":"T1:1:0","deltaContent":"you"}
8 {"type":"item_done","itemId":"T1:1:0","finalItem":{"type":"message","content":"hello you","origin":"agent"}}
9 {"type":"response_done","status":"completed","finishReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}
`
		if diff := cmp.Diff(want, trace(t, log, "s")); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEventsAfterTheEndAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, runnel.Config{}, say)
		turn := send(t, s)
		_, _ = turn.Wait(t.Context())
		for range 2 {
			n := 0
			for _, err := range turn.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != 9 {
				t.Fatalf("%d events, want 9", n)
			}
		}
	})
}

func TestWaitIsGatedByReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, runnel.Config{}, say)
		turn := send(t, s)
		reading, release := make(chan struct{}), make(chan struct{})
		go func() {
			for range turn.Events(context.Background()) {
				close(reading)
				<-release
				break // the reader stops before the end
			}
		}()
		<-reading
		waited := make(chan struct{})
		go func() {
			_, _ = turn.Wait(context.Background())
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("Wait returned while an iteration was under way")
		default:
		}
		close(release)
		<-waited
	})
}

// If the agent crashes, the turn ends once, with PROCESS_CRASH. The next prompt
// starts a new agent.
func TestCrashEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := script.Step{Tool: &script.Tool{Name: "Bash", Steps: []script.Step{die}}}
		s, log := open(t, runnel.Config{}, call)
		_, err := send(t, s).Wait(t.Context())
		if runnel.CodeOf(err) != runnel.ProcessCrash {
			t.Fatal(err)
		}
		got := trace(t, log, "s")
		if !strings.Contains(got, `"type":"response_error","error":{"code":"PROCESS_CRASH"`) || strings.Count(got, "response_") != 2 {
			t.Fatal(got)
		}
		// The next prompt starts a new agent, which crashes in the same way.
		if _, err := send(t, s).Wait(t.Context()); runnel.CodeOf(err) != runnel.ProcessCrash {
			t.Fatal(err)
		}
	})
}

func TestOpenItemsEndWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, script.Step{Text: "a b c d", Rate: 1}, say)
		turn := send(t, s)
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond) // virtual; the agent has emitted one word
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
			t.Fatal(res, err)
		}
		got := trace(t, log, "s")
		want := `{"type":"item_cancelled","itemId":"T1:1:0","reason":"user_cancel"}`
		if !strings.Contains(got, want) {
			t.Fatal(got)
		}
	})
}

// Only the first valid decision about an approval counts. Later and invalid
// decisions return an error.
func TestApprovalFirstDecisionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, ask)
		turn := send(t, s)
		if _, err := s.Send(t.Context(), runnel.Text("again")); runnel.CodeOf(err) != runnel.TurnInProgress {
			t.Fatal(err)
		}
		synctest.Wait()
		st := s.Status()
		if len(st.Pending) != 1 || st.Activity != event.ActivityWaiting {
			t.Fatalf("%+v", st)
		}
		a := st.Pending[0]
		for _, bad := range []struct {
			id   string
			d    runnel.Decision
			code runnel.Code
		}{
			{"other:a1", runnel.Decision{Choice: "allow"}, runnel.ApprovalGone},
			{a.ID, runnel.Decision{Choice: "maybe"}, runnel.InvalidRequest},
			{a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: "0"}, runnel.ApprovalGone},
			{a.ID, runnel.Decision{Choice: "deny", ArgumentsDigest: "0"}, runnel.ApprovalGone},
			{a.ID, runnel.Decision{Choice: "allow"}, runnel.InvalidRequest},
			{a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest, UpdatedArguments: json.RawMessage(`{}`)}, runnel.InvalidRequest},
		} {
			if err := s.Decide(t.Context(), bad.id, bad.d); runnel.CodeOf(err) != bad.code {
				t.Errorf("%+v: %v, want %s", bad.d, err, bad.code)
			}
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny"}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Fatal(err)
		}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := trace(t, log, "s"); strings.Count(got, "approval_resolved") != 1 || !strings.Contains(got, `"choice":"allow","by":"user"`) {
			t.Fatal(got)
		}
	})
}

// Of two concurrent decisions about an approval, exactly one succeeds.
func TestTwoApprovers(t *testing.T) {
	s, log := open(t, runnel.Config{}, ask)
	for range 200 {
		turn := send(t, s)
		var a event.Approval
		for ev := range turn.Events(t.Context()) {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				a = b.Approval
				break
			}
		}
		var wins sync.Map
		var wg sync.WaitGroup
		for _, choice := range []string{"allow", "deny"} {
			wg.Go(func() {
				if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: choice, ArgumentsDigest: a.ArgumentsDigest}); err == nil {
					wins.Store(choice, true)
				} else if runnel.CodeOf(err) != runnel.ApprovalGone {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		wins.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("%d winners", n)
		}
	}
	if got := trace(t, log, "s"); strings.Count(got, "approval_resolved") != 200 {
		t.Fatal(strings.Count(got, "approval_resolved"))
	}
}

func TestUnansweredApprovalsAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			timeout time.Duration
			by      event.Resolver
		}{{-1, event.ByPolicy}, {time.Minute, event.ByTimeout}} {
			log := new(runnel.Memory)
			p := &script.Provider{Script: script.Script{Steps: []script.Step{ask}}}
			s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log, ApprovalTimeout: tc.timeout})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := send(t, s).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := trace(t, log, "s"); !strings.Contains(got, `"choice":"deny","by":"`+string(tc.by)+`"`) {
				t.Fatal(got)
			}
			s.Close()
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, say, hang)
		for range 3 { // the session survives its cancelled turns
			turn := send(t, s)
			synctest.Wait()
			for range 2 {
				if err := s.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
				t.Fatal(res, err)
			}
		}
		if err := s.Cancel(t.Context()); err != nil { // nothing runs
			t.Fatal(err)
		}
		if got := trace(t, log, "s"); strings.Count(got, `"status":"cancelled"`) != 3 {
			t.Fatal(got)
		}
	})
}

func TestCancelWithdrawsApprovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, ask)
		turn := send(t, s)
		synctest.Wait()
		a := s.Status().Pending[0]
		_ = s.Cancel(t.Context())
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
			t.Fatal(res, err)
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow"}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Fatal(err)
		}
		if got := trace(t, log, "s"); !strings.Contains(got, `"choice":"withdrawn","by":"policy"`) {
			t.Fatal(got)
		}
	})
}

// stubborn is an agent that ignores requests and emits only the test's events.
type stubborn struct {
	events chan event.Event
	closed chan struct{}
	slow   time.Duration // how long Close takes
	opened *int
}

func newStubborn(slow time.Duration) *stubborn {
	return &stubborn{events: make(chan event.Event), closed: make(chan struct{}), slow: slow, opened: new(int)}
}

func (a *stubborn) Name() string { return "stubborn" }
func (a *stubborn) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	*a.opened++
	return &stubbornConn{a, make(chan struct{}), sync.Once{}}, nil
}

type stubbornConn struct {
	*stubborn
	gone chan struct{}
	once sync.Once
}

// unreachable is a stubborn agent whose Interrupt fails.
type unreachable struct{ *stubborn }

func (a unreachable) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := a.stubborn.Open(ctx, opt)
	return unreachableConn{c}, err
}

type unreachableConn struct{ runnel.Conn }

func (unreachableConn) Interrupt(context.Context) error {
	return runnel.Fail(runnel.AgentStalled, "it does not take its input")
}

func TestFailedInterruptIsReportedBeforeTheAgentIsStopped(t *testing.T) {
	refused := event.Notice{Level: event.LevelWarning, Code: string(runnel.InterruptFailed), Message: "It refused."}
	for name, c := range map[string]struct {
		deaf bool         // Interrupt fails
		says []event.Body // events of the agent after the interrupt
		want []string     // messages of the notices
	}{
		"ignored":     {want: []string{"did not end the turn within 2s"}},
		"refused":     {says: []event.Body{refused, refused}, want: []string{"It refused."}},
		"unreachable": {deaf: true, want: []string{"it does not take its input"}},
		"obeyed":      {says: []event.Body{event.ResponseDone{Status: event.StatusCancelled}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, agent := new(runnel.Memory), newStubborn(time.Second)
				var p runnel.Provider = agent
				if c.deaf {
					p = unreachable{agent}
				}
				s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				turn := send(t, s)
				agent.events <- event.Event{Turn: turn.ID, Body: event.ResponseStart{}}
				synctest.Wait()
				if err := s.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, b := range c.says {
					agent.events <- event.Event{Turn: turn.ID, Body: b}
				}
				if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
					t.Errorf("the turn ends as %+v, %v", res, err)
				}
				var said []string
				ends := 0
				for ev, err := range log.Read(t.Context(), "s", 0) {
					if err != nil {
						t.Fatal(err)
					}
					if n, ok := ev.Body.(event.Notice); ok && n.Code == string(runnel.InterruptFailed) && n.Level == event.LevelWarning && ev.Turn == turn.ID {
						said = append(said, n.Message)
					}
					if event.Ends(ev.Body) {
						ends++
					}
				}
				if len(said) != len(c.want) || len(said) == 1 && !strings.Contains(said[0], c.want[0]) || ends != 1 {
					t.Errorf("notices %q and %d ends, want notices %q and one end", said, ends, c.want)
				}
			})
		})
	}
}

func (c *stubbornConn) Next(context.Context) (event.Event, error) {
	select {
	case ev := <-c.events:
		return ev, nil
	case <-c.gone:
		return event.Event{}, io.EOF
	}
}
func (c *stubbornConn) Prompt(context.Context, string, runnel.Input) error    { return nil }
func (c *stubbornConn) Interrupt(context.Context) error                       { return nil }
func (c *stubbornConn) Decide(context.Context, string, runnel.Decision) error { return nil }
func (c *stubbornConn) Close() error {
	c.once.Do(func() { time.Sleep(c.slow); close(c.gone) })
	<-c.gone
	return nil
}

// A cancelled turn ends after the grace period even if the agent ignores the
// interrupt.
func TestCancelIsEnforced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []time.Duration{0, 2 * time.Second, time.Minute} {
			agent := newStubborn(slow)
			s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			turn := send(t, s)
			begin := time.Now()
			_ = s.Cancel(t.Context())
			res, err := turn.Wait(t.Context())
			if err != nil || res.Status != event.StatusCancelled {
				t.Fatal(res, err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Fatalf("cancelled after %v", took)
			}
			send(t, s) // the next turn starts a new agent after the old one has exited
			synctest.Wait()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if slow < time.Minute && *agent.opened < 1 {
				t.Fatal(*agent.opened)
			}
		}
	})
}

func TestLateAndDoubleEventsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent, counters := newStubborn(0), new(runnel.Counters)
		log := new(runnel.Memory)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{Counters: counters}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		turn := send(t, s)
		emit := func(b event.Body) { agent.events <- event.Event{At: time.Unix(0, 0), Turn: turn.ID, Body: b} }
		emit(event.ItemStart{ItemID: runnel.UserItemID(turn.ID), ItemType: event.TypeMessage}) // repeats the user's message
		emit(event.ItemDelta{ItemID: "nowhere", DeltaContent: "x"})
		emit(event.ItemStart{ItemID: turn.ID + ":2:0", ItemType: event.TypeFunctionCall})                                // no name
		emit(event.ItemDone{ItemID: turn.ID + ":1:0", FinalItem: event.Message{Content: "", Origin: event.OriginAgent}}) // no start
		emit(event.ItemDone{ItemID: turn.ID + ":1:0", FinalItem: event.Message{Content: "2", Origin: event.OriginAgent}})
		emit(event.ItemStart{ItemID: "elsewhere:1:0", ItemType: event.TypeMessage})
		emit(event.ResponseStart{})
		emit(event.ResponseDone{Status: event.StatusError, FinishReason: "boom"})
		emit(event.ResponseDone{Status: event.StatusCompleted})
		emit(event.ItemStart{ItemID: "late", ItemType: event.TypeMessage})
		agent.events <- event.Event{Body: event.ItemStart{ItemID: "of no turn", ItemType: event.TypeMessage}}
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.AgentError {
			t.Fatal(err)
		}
		synctest.Wait()
		want := `1 {"type":"item_start","itemId":"T1:0:0","itemType":"message"}
2 {"type":"item_done","itemId":"T1:0:0","finalItem":{"type":"message","content":"hi","origin":"user"}}
3 {"type":"response_start","modelId":"unknown","providerId":"stubborn"}
4 {"type":"notice","level":"warning","code":"INVALID_STREAM_EVENT","message":"rejected an invalid event of the agent: item_delta: itemId: no such item has started"}
5 {"type":"notice","level":"warning","code":"INVALID_STREAM_EVENT","message":"rejected an invalid event of the agent: item_start: name: missing"}
6 {"type":"item_start","itemId":"T1:1:0","itemType":"message"}
7 {"type":"item_done","itemId":"T1:1:0","finalItem":{"type":"message","content":"","origin":"agent"}}
8 {"type":"notice","level":"warning","code":"INVALID_STREAM_EVENT","message":"rejected an invalid event of the agent: item_start: itemId: does not begin with the id of its turn"}
9 {"type":"response_error","error":{"code":"AGENT_ERROR","message":"boom"}}
`
		if diff := cmp.Diff(want, trace(t, log, "s")); diff != "" {
			t.Fatal(diff)
		}
		if n := counters.Events.Load(); n != 6 { // the repeated message, the second item_done, the response_start, the second end, the late item, and the item without a turn
			t.Errorf("%d events were counted", n)
		}
	})
}

func TestAgentMayStartTurnWithoutPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		log := new(runnel.Memory)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		agent.events <- event.Event{Turn: "own", Body: event.ResponseStart{ProviderID: "x"}}
		synctest.Wait()
		if st := s.Status(); st.Turn != "own" || st.Activity != event.ActivityWorking {
			t.Fatalf("%+v", st)
		}
		if _, err := s.Send(t.Context(), runnel.Text("x")); runnel.CodeOf(err) != runnel.TurnInProgress {
			t.Fatal(err)
		}
		agent.events <- event.Event{Turn: "own", Body: event.ResponseDone{Status: event.StatusCompleted}}
		synctest.Wait()
		if st := s.Status(); st.Turn != "" || st.Head != 2 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, runnel.Config{StallTimeout: 90 * time.Second}, ask, script.Step{Tool: &script.Tool{Name: "Bash", TakesMS: 600_000}}, hang)
		turn := send(t, s)
		time.Sleep(time.Hour) // virtual: an approval is pending, so this is no stall
		a := s.Status().Pending[0]
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err := turn.Wait(t.Context())
		if runnel.CodeOf(err) != runnel.AgentStalled {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 690*time.Second {
			t.Fatalf("stalled after %v: the tool's time counts, or the silence does not", took)
		}
	})
}

func TestRecoveryClosesTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log := open(t, runnel.Config{}, script.Step{Text: "half a sentence"}, ask)
		evs := []event.Event{}
		s2 := "t"
		for _, b := range []event.Body{
			event.ResponseStart{ProviderID: "script"},
			event.ItemStart{ItemID: "turn-1:1:0", ItemType: event.TypeMessage},
			event.ApprovalRequested{Approval: event.Approval{ID: "a", Kind: event.ApprovalTool, Choices: []event.Choice{{ID: "x"}}}},
		} {
			evs = append(evs, event.Event{Session: s2, Seq: int64(len(evs) + 1), Turn: "turn-1", Body: b})
		}
		if err := log.Append(t.Context(), s2, 0, evs...); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second recovery changes nothing
			s, err := runnel.Open(t.Context(), script.New(), runnel.Options{}, runnel.Config{ID: s2, Log: log, Dormant: true})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
		got := trace(t, log, s2)
		want := `1 {"type":"response_start","providerId":"script"}
2 {"type":"item_start","itemId":"T1:1:0","itemType":"message"}
3 {"type":"approval_requested","approval":{"id":"a","kind":"tool","title":"","choices":[{"id":"x","kind":"","label":""}]}}
4 {"type":"item_cancelled","itemId":"T1:1:0","reason":"process_death"}
5 {"type":"approval_resolved","approvalId":"a","choice":"withdrawn","by":"policy","reason":"the turn is over"}
6 {"type":"response_error","error":{"code":"PROCESS_CRASH","message":"runnel ended in the middle of this turn; send again to resume the conversation"}}
`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// failing is a log whose Append returns err if it is set.
type failing struct {
	runnel.Memory
	mu  sync.Mutex
	err error
}

func (f *failing) Append(ctx context.Context, s string, head int64, evs ...event.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return f.Memory.Append(ctx, s, head, evs...)
}

func (f *failing) set(err error) { f.mu.Lock(); defer f.mu.Unlock(); f.err = err }

func TestFailedAppendLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(failing)
		agent := newStubborn(0)
		s, _ := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		defer s.Close()
		turn := send(t, s)
		readers := make(chan error, 1)
		go func() {
			var last error
			for _, err := range turn.Events(context.Background()) {
				last = err
			}
			readers <- last
		}()
		synctest.Wait()
		log.set(errors.New("disk on fire"))
		agent.events <- event.Event{Turn: turn.ID, Body: event.ItemStart{ItemID: turn.ID + ":1:0", ItemType: event.TypeMessage}}
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Fatal(err)
		}
		if err := <-readers; runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Text("x")); runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Fatal(err)
		}
		log.set(nil)
		turn2 := send(t, s) // also closes the turn that failed
		synctest.Wait()     // until the connection of that turn takes no more events
		agent.events <- event.Event{Turn: turn2.ID, Body: event.ResponseDone{Status: event.StatusCompleted}}
		if _, err := turn2.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := trace(t, log, "s"); strings.Count(got, "STORE_UNAVAILABLE") != 1 || strings.Count(got, "response_done") != 1 {
			t.Fatal(got)
		}
	})
}

// Of a hundred concurrent prompts, exactly one starts a turn.
func TestOneTurnAtATime(t *testing.T) {
	s, _ := open(t, runnel.Config{}, hang)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[runnel.Code]int{}
	for range 100 {
		wg.Go(func() {
			_, err := s.Send(t.Context(), runnel.Text("x"))
			mu.Lock()
			defer mu.Unlock()
			got[runnel.CodeOf(err)]++
		})
	}
	wg.Wait()
	if got[""] != 1 || got[runnel.TurnInProgress] != 99 {
		t.Fatal(got)
	}
}

// TestCancelRaces cancels a turn after each of its events, in two successive
// turns.
func TestCancelRaces(t *testing.T) {
	steps := []script.Step{{Reasoning: "a b"}, {Text: "a b c"}, {Tools: []script.Tool{{Name: "A"}, {Name: "B"}}}, ask, say}
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s, log := open(t, runnel.Config{}, steps...)
			for range 2 {
				turn := send(t, s)
				n := 0
				for ev, err := range turn.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if n++; n >= at {
						_ = s.Cancel(t.Context())
					}
					if a, ok := ev.Body.(event.ApprovalRequested); ok && n < at {
						_ = s.Decide(t.Context(), a.Approval.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.Approval.ArgumentsDigest})
					}
				}
				if _, err := turn.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			providertest.CheckLog(t, log, "s")
		})
	}
}

func TestManyReaders(t *testing.T) {
	s, log := open(t, runnel.Config{}, say)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const events = 8*10 + 1 // the agent's name is emitted once
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			n := 0
			for ev, err := range runnel.Follow(ctx, log, "s", 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if n++; ev.Seq != int64(n) {
					t.Errorf("seq %d at %d", ev.Seq, n)
				}
				if n == events {
					return
				}
			}
		})
	}
	for range 10 {
		if _, err := send(t, s).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestCloseEndsARunningTurnAsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := open(t, runnel.Config{}, hang)
		turn := send(t, s)
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
			t.Fatal(res, err)
		}
		if _, err := s.Send(t.Context(), runnel.Text("x")); runnel.CodeOf(err) != runnel.SessionDead {
			t.Fatal(err)
		}
		if st := s.Status(); st.State != event.StateDead {
			t.Fatalf("%+v", st)
		}
		providertest.CheckLog(t, log, "s")
	})
}

func TestInputIsChecked(t *testing.T) {
	s, _ := open(t, runnel.Config{}, say)
	for _, text := range []string{"", "a\x00b", "a\xff"} {
		if _, err := s.Send(t.Context(), runnel.Text(text)); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// ResponseStart always has a model id, so readers may rely on it.
func TestResponseStartHasAModelIDAlsoIfTheAgentGivesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		run, err := runnel.Start(t.Context(), agent, runnel.Options{}, runnel.Text("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		agent.events <- event.Event{Turn: run.ID(), Body: event.ResponseStart{}}
		agent.events <- event.Event{Turn: run.ID(), Body: event.ResponseDone{Status: event.StatusCompleted}}
		for ev, err := range run.Events(t.Context()) {
			if b, ok := ev.Body.(event.ResponseStart); ok && b.ModelID != "unknown" || err != nil {
				t.Errorf("%+v, %v", b, err)
			}
		}
		_, _ = run.Wait(t.Context())
		// The ResponseStart that the session adds if the agent emits none has a
		// model id, too.
		agent = newStubborn(0)
		if run, err = runnel.Start(t.Context(), agent, runnel.Options{}, runnel.Text("x")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		agent.events <- event.Event{Turn: run.ID(), Body: event.ResponseDone{Status: event.StatusCompleted}}
		for ev := range run.Events(t.Context()) {
			if b, ok := ev.Body.(event.ResponseStart); ok && b.ModelID != "unknown" {
				t.Errorf("%+v", b)
			}
		}
	})
}
