package gateway

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// shared is a keeper whose conversation other processes may have open.
type shared struct {
	*keeper
	mu      sync.Mutex
	writers []runnel.Writer
	unknown bool      // the writers cannot be known
	written time.Time // last change of the conversation
	next    int       // if not 0, each call names another process
}

func (s *shared) Writers(context.Context) ([]runnel.Writer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next > 0 {
		s.next++
		return []runnel.Writer{{AgentSessionID: "abc", PID: s.next, Start: "1", Source: runnel.WriterRegistry}}, true
	}
	return append([]runnel.Writer{}, s.writers...), !s.unknown
}

func (s *shared) Written(context.Context, runnel.Conversation) time.Time { return s.written }

func (s *shared) set(list ...runnel.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers = list
}

func inTerminal(pid int) runnel.Writer {
	return runnel.Writer{AgentSessionID: "abc", PID: pid, Start: strconv.Itoa(pid), Source: runnel.WriterRegistry}
}

// newShared returns a gateway with a session of the conversation.
func newShared(t *testing.T) (*Gateway, *shared, string) {
	t.Helper()
	d := newDisk(t)
	p := &shared{keeper: newKeeper(d)}
	p.history = turnWith(derived("a"), "hi", "hello")
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
	st, err := g.Load(t.Context(), "script:abc", "")
	if err != nil {
		t.Fatal(err)
	}
	return g, p, st.SessionID
}

func TestOnlyOtherProcessesKeepPromptsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		own := inTerminal(2)
		own.Session = id
		ofServer := inTerminal(3)
		ofServer.Own = true
		elsewhere := inTerminal(4)
		elsewhere.AgentSessionID = "other"
		ofAgent := inTerminal(5) // started by the agent of another session
		ofAgent.Session = "0192f0c1-7d5e-7c3a-9d0e-100000000009"
		for _, c := range []struct {
			what    string
			writer  runnel.Writer
			refused bool
		}{
			{"a terminal", inTerminal(1), true}, {"the session's agent", own, false}, {"the server", ofServer, false},
			{"another conversation", elsewhere, false}, {"a command of another agent", ofAgent, true},
		} {
			p.set(c.writer)
			_, err := g.Send(t.Context(), id, Prompt{Text: "text"})
			if refused := runnel.CodeOf(err) == runnel.ConversationInUse; refused != c.refused || err != nil && !refused {
				t.Errorf("%s: %v", c.what, err)
			}
			synctest.Wait()
			if !c.refused {
				continue // a boot would begin another conversation
			}
			if _, _, err := g.Boot(t.Context(), id, true); runnel.CodeOf(err) != runnel.ConversationInUse {
				t.Errorf("%s: boot: %v", c.what, err)
			}
		}
	})
}

// slowToEnd is the connection to an agent whose supervisor was killed. The agent
// takes a second to exit, and is listed as a writer until then.
type slowToEnd struct {
	runnel.Conn
	s *shared
}

func (c slowToEnd) Close() error {
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	c.s.set()
	return c.Conn.Close()
}

// A crashed agent has its conversation open until it has ended completely. It is
// no other process.
func TestPromptAfterCrashWaitsForTheOldAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		open := p.open
		p.open = func(o runnel.Options) (runnel.Conn, error) {
			conn, err := open(o)
			return slowToEnd{conn, p}, err
		}
		if _, err := g.Send(t.Context(), id, Prompt{Text: `{"steps":[{"crash":true}]}`}); err != nil {
			t.Fatal(err)
		}
		p.set(inTerminal(1)) // as it looks without its supervisor
		for range 100 {      // until the turn has failed
			if st, err := g.Status(t.Context(), id); err != nil || st.Activity == "idle" {
				break
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("a prompt after the crash: %v", err)
		}
		synctest.Wait()
	})
}

// After a supervisor was killed, its agent runs for another moment. A prompt that
// arrives before the session has noticed the end is not refused because of it.
func TestPromptWaitsForAProcessThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		ending := inTerminal(1)
		ending.Ends = true
		p.set(ending)
		time.AfterFunc(time.Second, func() { p.set() })
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("a prompt while the process ends: %v", err)
		}
		synctest.Wait()
		p.set(ending) // it does not end, such as a process that an agent freed of its supervisor
		began := time.Now()
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); runnel.CodeOf(err) != runnel.ConversationInUse {
			t.Errorf("a prompt beside a process that does not end: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the prompt waited for %v", took)
		}
	})
}

func TestRecentChangeKeepsPromptsOutFor30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		p.unknown, p.written = true, time.Now()
		time.Sleep(29 * time.Second) //nolint:forbidigo // virtual time
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); runnel.CodeOf(err) != runnel.ConversationInUse {
			t.Errorf("after 29 s: %v", err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("after 31 s: %v", err)
		}
		synctest.Wait()
		p.written = time.Now() // by the session's own agent
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("after a turn of its own: %v", err)
		}
		synctest.Wait()
	})
}

// A program that any process can start must not lock the user out, even if it
// starts one writer after another.
func TestTakeoverOutlastsNewWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		p.set(inTerminal(1))
		if _, err := TakeoversOf(g).Take(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		p.next = 100
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("while writers come and go: %v", err)
		}
		synctest.Wait()
		p.next = 0
		time.Sleep(takeoverTime + time.Second) //nolint:forbidigo // virtual time
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); err != nil {
			t.Errorf("while the writer of the takeover runs: %v", err)
		}
		synctest.Wait()
		p.set(inTerminal(1), inTerminal(7))
		if _, err := g.Send(t.Context(), id, Prompt{Text: "text"}); runnel.CodeOf(err) != runnel.ConversationInUse {
			t.Errorf("a new terminal after the takeover: %v", err)
		}
	})
}

// stoppable is a shared keeper whose conversations can be found without its
// agent, and whose writers exit if they are asked to.
type stoppable struct {
	*shared
	stopped int // number of writers that were asked to exit
}

func (s *stoppable) Find(ctx context.Context, id string) (runnel.Conversation, error) {
	return locating{s.keeper}.Find(ctx, id)
}

func (s *stoppable) StopWriter(context.Context, runnel.Writer) error {
	s.stopped++
	s.set()
	return nil
}

// An agent can report the id of another project's conversation as its own. A
// client of its session must not end the process that has that conversation open.
func TestTakeoverStopsNoWriterOfAnotherProject(t *testing.T) {
	for own, stopped := range map[bool]int{true: 1, false: 0} {
		d := newDisk(t)
		p := &stoppable{shared: &shared{keeper: newKeeper(d)}}
		if !own {
			p.kept[0].Dir = t.TempDir()
		}
		w := inTerminal(1)
		w.Source = runnel.WriterDescriptors
		p.set(w)
		rec := store.Session{ID: uuid.NewString(), CLIType: "script", ProjectID: ProjectID(d.dir), ProjectDir: d.dir, AgentSessionID: "abc", State: event.StateOpen, CreatedAt: time.Now(), LastActiveAt: time.Now()}
		if err := d.cat.PutSession(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
		_, err := TakeoversOf(g).Take(t.Context(), rec.ID, "")
		if refused := runnel.CodeOf(err) == runnel.ConversationInUse; p.stopped != stopped || refused == own {
			t.Errorf("the session's own conversation: %t; %d writers were stopped, %v", own, p.stopped, err)
		}
		closeIt(t, g)
	}
}

func TestQueuedPromptWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, id := newShared(t)
		defer closeIt(t, g)
		if _, err := g.Send(t.Context(), id, Prompt{Text: "hang"}); err != nil {
			t.Fatal(err)
		}
		if sent, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true}); err != nil || !sent.Queued {
			t.Fatalf("%+v, %v", sent, err)
		}
		p.set(inTerminal(1))
		if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if st, err := g.Status(t.Context(), id); err != nil || st.Queued != 1 || st.TurnID != "" {
			t.Errorf("while the conversation is in use: %+v, %v", st, err)
		}
		p.set()
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
		if st, err := g.Status(t.Context(), id); err != nil || st.Queued != 0 || st.LastTurn != "completed" {
			t.Errorf("when it is free: %+v, %v", st, err)
		}
	})
}
