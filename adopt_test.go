package runnel_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// keeper is a provider whose agent outlives its sessions. It reads the agent
// continuously and keeps its events since the last prompt.
type keeper struct {
	script.Provider
	agent runnel.Conn

	mu      sync.Mutex
	grown   chan struct{} // closed and replaced when said grows
	said    []event.Event
	gone    error
	after   int64
	prompts []string
	decided []string // approvals
}

func (k *keeper) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	agent, err := k.Provider.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.agent, k.grown, k.after = agent, make(chan struct{}), -1
	k.said, k.prompts, k.decided, k.gone = nil, nil, nil, nil // drops the state of the previous agent
	go k.listen(agent)
	return &kept{k: k, quit: make(chan struct{})}, nil
}

func (k *keeper) listen(agent runnel.Conn) {
	for {
		ev, err := agent.Next(context.Background())
		k.mu.Lock()
		if k.agent != agent {
			k.mu.Unlock()
			return
		}
		if err != nil {
			k.gone = err
		} else {
			k.said = append(k.said, ev)
		}
		close(k.grown)
		k.grown = make(chan struct{})
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (k *keeper) Adopt(context.Context, runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.agent == nil || k.gone != nil {
		return nil, runnel.Backlog{}, errors.New("nobody is there")
	}
	back := runnel.Backlog{After: k.after, Events: slices.Clone(k.said), Prompts: slices.Clone(k.prompts)}
	for _, ev := range k.said {
		if a, ok := ev.Body.(event.ApprovalRequested); ok && !slices.Contains(k.decided, a.Approval.ID) {
			back.Waiting = append(back.Waiting, a.Approval.ID)
		}
	}
	return &kept{k: k, at: len(k.said), quit: make(chan struct{})}, back, nil
}

// kept is a connection to a keeper's agent. A dead one ignores every call, as
// if its server process had ended.
type kept struct {
	k    *keeper
	at   int
	dead atomic.Bool
	quit chan struct{}
	once sync.Once
}

func (c *kept) Next(ctx context.Context) (event.Event, error) {
	for {
		c.k.mu.Lock()
		grown, gone := c.k.grown, c.k.gone
		if c.at < len(c.k.said) {
			c.at++
			ev := c.k.said[c.at-1]
			c.k.mu.Unlock()
			return ev, nil
		}
		c.k.mu.Unlock()
		if gone != nil {
			return event.Event{}, gone
		}
		select {
		case <-grown:
		case <-c.quit:
			return event.Event{}, io.EOF
		case <-ctx.Done():
			return event.Event{}, ctx.Err()
		}
	}
}

func (c *kept) Prompt(ctx context.Context, turn string, in runnel.Input) error {
	c.k.mu.Lock()
	c.k.said, c.k.prompts, c.k.decided, c.k.after = nil, []string{turn}, nil, in.After
	c.at = 0
	c.k.mu.Unlock()
	return c.k.agent.Prompt(ctx, turn, in)
}

func (c *kept) Interrupt(ctx context.Context) error { return c.k.agent.Interrupt(ctx) }

func (c *kept) Decide(ctx context.Context, approval string, d runnel.Decision) error {
	if c.dead.Load() {
		return nil
	}
	c.k.mu.Lock()
	c.k.decided = append(c.k.decided, approval)
	c.k.mu.Unlock()
	return c.k.agent.Decide(ctx, approval, d)
}

func (c *kept) Close() error {
	c.once.Do(func() { close(c.quit) })
	if c.dead.Load() {
		return nil
	}
	return c.k.agent.Close()
}

func (c *kept) Detach() bool {
	c.dead.Store(true)
	c.once.Do(func() { close(c.quit) })
	return true
}

// mortal is a log that stores a number of events, the field left, and then
// fails as if its writer had been killed. It stores the part of a batch that is
// within that number.
type mortal struct {
	*runnel.Memory
	left int
	die  func()
}

func (m *mortal) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if m.left >= len(evs) {
		m.left -= len(evs)
		return m.Memory.Append(ctx, session, head, evs...)
	}
	m.die()
	if m.left > 0 {
		if err := m.Memory.Append(ctx, session, head, evs[:m.left]...); err != nil {
			return err
		}
	}
	m.left = 0
	return errors.New("killed")
}

const adoptedTurn = "0192f0c1-0000-7000-8000-000000000001"

var adopted = []script.Step{
	{Notice: &event.Notice{Level: event.LevelInfo, Code: "SAME", Message: "twice"}},
	{Reasoning: "thinking about it", Rate: 100},
	{Text: "one two three four five six", Rate: 100},
	{Notice: &event.Notice{Level: event.LevelInfo, Code: "SAME", Message: "twice"}},
	{Tool: &script.Tool{Name: "Bash", Output: "ok", Ask: &script.Ask{Title: "rm -rf"}}},
	{Tools: []script.Tool{{Name: "Read", Output: "a"}, {Name: "Read", Output: "b"}}},
	{Text: "all done now", Rate: 100},
}

// play answers approvals until the turn ends or dead returns true.
func play(t *testing.T, s *runnel.Session, dead func() bool) {
	t.Helper()
	for {
		synctest.Wait()
		st := s.Status()
		if dead() || st.Turn == "" {
			return
		}
		if len(st.Pending) > 0 {
			a := st.Pending[0]
			_ = s.Decide(t.Context(), a.ID, runnel.Decision{Choice: a.Choices[0].ID, ArgumentsDigest: a.ArgumentsDigest})
			continue
		}
		time.Sleep(time.Millisecond) // virtual time; the script emits at a limited rate
	}
}

// uncut plays the turn of these tests without a restart. It returns the trace
// of the log and the number of its events.
func uncut(t *testing.T) (want string, events int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
			t.Fatal(err)
		}
		play(t, s, func() bool { return false })
		want = trace(t, log, "s")
		_ = s.Close()
	})
	return want, strings.Count(want, "\n")
}

// TestAdoptAfterEveryEvent kills the session after each event of a turn. The
// next session takes over the agent, and its log is the same as without the
// kill: no event is missing or repeated.
func TestAdoptAfterEveryEvent(t *testing.T) {
	want, events := uncut(t)
	for cut := 2; cut < events; cut++ { // with fewer events the prompt is not accepted
		synctest.Test(t, func(t *testing.T) {
			k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
			var dead atomic.Bool
			log := &mortal{Memory: new(runnel.Memory), left: cut}
			var first *kept
			log.die = func() { dead.Store(true); first.dead.Store(true) }
			s, err := runnel.Open(t.Context(), opening{k, &first}, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
				t.Fatal(err)
			}
			play(t, s, dead.Load)
			_ = s.Close()

			s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log.Memory, Dormant: true, Adopt: true})
			if err != nil {
				t.Fatal(err)
			}
			play(t, s, func() bool { return false })
			if diff := cmp.Diff(want, trace(t, log.Memory, "s")); diff != "" {
				t.Errorf("killed after %d events:\n%s", cut, diff)
			}
			_ = s.Close()
		})
	}
}

// opening is a keeper that stores the connection that it has opened last in
// *conn.
type opening struct {
	*keeper
	conn **kept
}

func (o opening) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := o.keeper.Open(ctx, opt)
	if err == nil {
		*o.conn = c.(*kept)
	}
	return c, err
}

func TestDetachLeavesTheTurnToTheNextSession(t *testing.T) {
	want, _ := uncut(t)
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if s.Detach(t.Context()) {
			t.Error("detached without a turn")
		}
		turn, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if !s.Detach(t.Context()) {
			t.Fatal("not detached")
		}
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("who waits for the turn is told %v", err)
		}
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true})
		if err != nil {
			t.Fatal(err)
		}
		play(t, s, func() bool { return false })
		if diff := cmp.Diff(want, trace(t, log, "s")); diff != "" {
			t.Error(diff)
		}
		_ = s.Close()
	})
}

// TestAdoptedApprovalIsDecidedByTheJudge leaves a turn that waits for an answer
// to another session, whose Judge decides the approval. The person who answered
// may have stored a rule just before the first session was killed.
func TestAdoptedApprovalIsDecidedByTheJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{{Tool: &script.Tool{Name: "Bash", Output: "ok", Ask: &script.Ask{Title: "make"}}}}}}}
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
			t.Fatal(err)
		}
		if play(t, s, func() bool { return len(s.Status().Pending) > 0 }); !s.Detach(t.Context()) {
			t.Fatal("not detached")
		}
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true, Judge: verdict("allow", "rule 1")})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		play(t, s, func() bool { return len(s.Status().Pending) == 0 && s.Status().Turn == "" })
		var got []event.ApprovalResolved
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if b, ok := ev.Body.(event.ApprovalResolved); ok && err == nil {
				got = append(got, b)
			}
		}
		if len(got) != 1 || got[0].Choice != "allow" || got[0].By != event.ByPolicy || got[0].Reason != "rule 1" {
			t.Errorf("resolved: %+v", got)
		}
	})
}

// TestDetachWaitsForTheAgent detaches a session while its agent starts. Detach
// waits until the agent has received the prompt.
func TestDetachWaitsForTheAgent(t *testing.T) {
	want, _ := uncut(t)
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), slow{k}, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
			t.Fatal(err)
		}
		if !s.Detach(t.Context()) {
			t.Fatal("not detached")
		}
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true})
		if err != nil {
			t.Fatal(err)
		}
		play(t, s, func() bool { return false })
		if diff := cmp.Diff(want, trace(t, log, "s")); diff != "" {
			t.Error(diff)
		}
		_ = s.Close()
	})
}

// slow is a provider whose agent takes a second to start.
type slow struct{ *keeper }

func (s slow) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	time.Sleep(time.Second)
	return s.keeper.Open(ctx, opt)
}

// TestAdoptSendsPromptThatTheAgentDidNotReceive starts with a prompt in the log
// that the agent has not received, because the server process ended in between.
func TestAdoptSendsPromptThatTheAgentDidNotReceive(t *testing.T) {
	want, _ := uncut(t)
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
		log := new(runnel.Memory)
		if _, err := k.Open(t.Context(), runnel.Options{Resume: "agent-1"}); err != nil {
			t.Fatal(err)
		}
		id := runnel.UserItemID(adoptedTurn)
		for i, b := range []event.Body{
			event.ItemStart{ItemID: id, ItemType: event.TypeMessage},
			event.ItemDone{ItemID: id, FinalItem: event.Message{Content: "go", Origin: event.OriginUser}},
		} {
			ev := event.Event{Session: "s", Seq: int64(i + 1), Turn: adoptedTurn, At: time.Now(), Body: b}
			if err := log.Append(t.Context(), "s", int64(i), ev); err != nil {
				t.Fatal(err)
			}
		}
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true})
		if err != nil {
			t.Fatal(err)
		}
		play(t, s, func() bool { return false })
		if diff := cmp.Diff(want, trace(t, log, "s")); diff != "" {
			t.Error(diff)
		}
		_ = s.Close()
	})
}

// failingLog is a log whose Append fails while ill is set.
type failingLog struct {
	runnel.Memory
	ill atomic.Bool
}

func (l *failingLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if l.ill.Load() {
		return errors.New("no space")
	}
	return l.Memory.Append(ctx, session, head, evs...)
}

// After the log recovers, the logged end of the turn is the error that Wait
// returned.
func TestLogFailureEndsTurnWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(failingLog)
		s, err := runnel.Open(t.Context(), &script.Provider{Script: script.Script{Steps: adopted}}, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		turn := send(t, s)
		time.Sleep(50 * time.Millisecond)
		log.ill.Store(true)
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("who waits is told %v", err)
		}
		log.ill.Store(false)
		time.Sleep(5 * time.Second)
		got := trace(t, log, "s")
		if last := got[strings.LastIndex(strings.TrimSpace(got), "\n")+1:]; !strings.Contains(last, "response_error") || !strings.Contains(last, "STORE_UNAVAILABLE") {
			t.Errorf("the log ends with %s", last)
		}
	})
}

// uninterruptible is an agent that ignores Interrupt.
type uninterruptible struct{ *keeper }

func (n uninterruptible) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := n.keeper.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	return uninterruptibleConn{c.(*kept)}, nil
}

type uninterruptibleConn struct{ *kept }

func (uninterruptibleConn) Interrupt(context.Context) error { return nil }

// TestDetachLeavesNoTurnThatWasCancelled cancels a turn and then detaches.
// Detach refuses, because the next process could not know that the turn was
// cancelled.
func TestDetachLeavesNoTurnThatWasCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted}}}
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), uninterruptible{k}, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Detach(t.Context()) {
			t.Error("detached")
		}
		_ = s.Close()
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
			t.Errorf("the turn ended as %s, %v", res.Status, err)
		}
	})
}

// torn is a log whose first Read returns all events and then an error.
type torn struct {
	*runnel.Memory
	once sync.Once
}

func (l *torn) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range l.Memory.Read(ctx, session, after) {
			if !yield(ev, err) {
				return
			}
		}
		l.once.Do(func() { yield(event.Event{}, errors.New("cannot be read now")) })
	}
}

// After a failed takeover, the session does not treat events of the next agent
// as a replay of logged events.
func TestFailedAdoptionSuppressesNoLaterEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: adopted[:2]}}}
		log := new(runnel.Memory)
		turn := func(s *runnel.Session) (notices int) {
			from := s.Status().Head
			if _, err := s.Send(t.Context(), runnel.Input{Text: "go"}); err != nil {
				t.Fatal(err)
			}
			play(t, s, func() bool { return false })
			for ev := range log.Read(t.Context(), "s", from) {
				if _, ok := ev.Body.(event.Notice); ok {
					notices++
				}
			}
			return notices
		}
		var first *kept
		s, err := runnel.Open(t.Context(), opening{k, &first}, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		want := turn(s)
		first.dead.Store(true) // the session is killed
		_ = s.Close()
		left := k.agent
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: &torn{Memory: log}, Dormant: true, Adopt: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := turn(s); want == 0 || got != want {
			t.Errorf("%d notices, not %d\n%s", got, want, trace(t, log, "s"))
		}
		_ = s.Close()
		_ = left.Close()
	})
}
