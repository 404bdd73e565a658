package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// flakyCatalogue is a catalogue whose queue fails a few times.
type flakyCatalogue struct {
	store.Catalogue
	list, remove atomic.Int32 // how many further calls of Queue and Dequeue fail
}

var errShaky = errors.New("no")

func (s *flakyCatalogue) Queue(ctx context.Context, id string) ([]store.Queued, error) {
	if s.list.Add(-1) >= 0 {
		return nil, errShaky
	}
	return s.Catalogue.Queue(ctx, id)
}

func (s *flakyCatalogue) Dequeue(ctx context.Context, id, turn string) error {
	if s.remove.Add(-1) >= 0 {
		return errShaky
	}
	return s.Catalogue.Dequeue(ctx, id, turn)
}

// listing is a catalogue that counts the bytes of options in its lists.
type listing struct {
	store.Catalogue
	bytes atomic.Int64
}

func (l *listing) Sessions(ctx context.Context, f store.SessionFilter) ([]store.Session, error) {
	list, err := l.Catalogue.Sessions(ctx, f)
	for _, rec := range list {
		l.bytes.Add(int64(len(rec.Options)))
	}
	return list, err
}

// There may be tens of thousands of sessions, and a client may give each a
// megabyte of options. The lists must not contain these options.
func TestListsOfSessionsLeaveOutLongOptions(t *testing.T) {
	d := newDisk(t)
	for range 10 {
		opt := runnel.Options{SystemPromptAppend: strings.Repeat("x", 100<<10), Config: runnel.Values{"own": "value"}}
		rec, err := newRecord(nil, script.New(), d.dir, opt, resolution{})
		if err == nil {
			rec.Options, err = kept{Persona: "reviewer", Delegation: Governed}.in(rec.Options)
		}
		if err == nil {
			err = d.cat.PutSession(t.Context(), rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cat := &listing{Catalogue: d.cat}
	g := d.open(t, func(c *Config) { c.Catalogue = cat })
	defer closeIt(t, g)
	list, err := g.List(t.Context(), Filter{Dead: true})
	if err != nil || len(list) != 10 {
		t.Fatalf("got %d sessions, %v", len(list), err)
	}
	for _, st := range list {
		if st.Persona != "reviewer" || st.Delegation != Governed || st.Given["own"] != "value" {
			t.Errorf("got %+v", st)
		}
	}
	listed, err := g.Listed(t.Context(), Filter{Dead: true})
	if list := ProjectsOf(listed); err != nil || len(list) != 1 || list[0].Sessions != 10 {
		t.Errorf("got %+v, %v", list, err)
	}
	if n := cat.bytes.Load(); n > 10<<10 {
		t.Errorf("the lists contain %d bytes of options", n)
	}
}

func TestQueuedPromptBeginsOnceDespiteCatalogueErrors(t *testing.T) {
	for name, fail := range map[string]func(*flakyCatalogue){
		"cannot be listed":  func(s *flakyCatalogue) { s.list.Store(3) },
		"cannot be removed": func(s *flakyCatalogue) { s.remove.Store(1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(t)
				cat := &flakyCatalogue{Catalogue: d.cat}
				g := d.open(t, func(c *Config) { c.Catalogue = cat })
				defer closeIt(t, g)
				id := d.create(t, g)
				send(t, g, id, "hang")
				sent, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				fail(cat)
				if err := QueuesOf(g).Skip(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				<-time.After(10 * time.Minute)
				synctest.Wait()
				begun := 0
				for ev := range d.log.Read(t.Context(), id, 0) {
					if ev.Turn == sent.TurnID && is[event.ResponseStart](ev) {
						begun++
					}
				}
				st, _ := g.Status(t.Context(), id)
				if begun != 1 || st.Queued != 0 {
					t.Errorf("begun %d times, %d wait", begun, st.Queued)
				}
			})
		})
	}
}

// unwritten is a catalogue that fails to write records while broken is set.
type unwritten struct {
	store.Catalogue
	broken atomic.Bool
}

func (u *unwritten) PutSession(ctx context.Context, s store.Session) error {
	if u.broken.Load() {
		return errShaky
	}
	return u.Catalogue.PutSession(ctx, s)
}

// The record of a session is written after its status is shown. A client may
// name the session by the agent's id as soon as it has seen the id.
func TestSessionIsFoundByTheAgentsIDBeforeItsRecordIsWritten(t *testing.T) {
	d := newDisk(t)
	cat := &unwritten{Catalogue: d.cat}
	g := d.open(t, func(c *Config) { c.Catalogue = cat })
	defer closeIt(t, g)
	defer cat.broken.Store(false) // lets the closing gateway write the remaining records
	id := d.create(t, g)
	name := func() string {
		st, err := g.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return "script:" + st.AgentSessionID
	}
	cat.broken.Store(true)
	d.ends(t, send(t, g, id, "text"))
	d.untilIdle(t, g, id)
	if got, err := g.Resolve(t.Context(), name(), ""); got != id || err != nil {
		t.Errorf("%s is %q, %v; want %s", name(), got, err, id)
	}
	if st, err := g.Load(t.Context(), name(), ""); st.SessionID != id || err != nil {
		t.Errorf("loaded %+v, %v; want %s", st, err, id)
	}
	if got, err := g.Resolve(t.Context(), name(), "/elsewhere"); err == nil {
		t.Errorf("in another folder it is %q", got)
	}
}

// slowDeletion is a catalogue whose DeleteSession waits until the test lets it
// continue.
type slowDeletion struct {
	store.Catalogue
	begun, gate chan struct{}
}

func (c *slowDeletion) DeleteSession(ctx context.Context, id string) error {
	close(c.begun)
	<-c.gate
	return c.Catalogue.DeleteSession(ctx, id)
}

// A request that arrives while a session is being deleted does not bring the
// session back.
func TestDeletedSessionStaysDeleted(t *testing.T) {
	for name, request := range map[string]func(g *Gateway, ctx context.Context, id string) error{
		"load": func(g *Gateway, ctx context.Context, id string) error { _, err := g.Load(ctx, id, ""); return err },
		"send": func(g *Gateway, ctx context.Context, id string) error {
			_, err := g.Send(ctx, id, Prompt{Text: "text", Queue: true})
			return err
		},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", name, killed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDisk(t)
					cat := &slowDeletion{Catalogue: d.cat, begun: make(chan struct{}), gate: make(chan struct{})}
					g := d.open(t, func(c *Config) { c.Catalogue = cat })
					defer closeIt(t, g)
					id := d.create(t, g)
					if killed {
						if err := g.Kill(t.Context(), id); err != nil {
							t.Fatal(err)
						}
					}
					deleted, answered := make(chan error, 1), make(chan error, 1)
					go func() { deleted <- g.Delete(t.Context(), id) }()
					<-cat.begun
					go func() { answered <- request(g, t.Context(), id) }()
					synctest.Wait()
					close(cat.gate)
					if err := <-deleted; err != nil {
						t.Error(err)
					}
					if err := <-answered; err == nil {
						t.Error("the request succeeded")
					}
					if _, err := d.cat.Session(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
						t.Errorf("the session is back: %v", err)
					}
				})
			})
		}
	}
}

// While a session is being opened or closed, Cancel cannot know whether a turn
// runs. It waits for the end of the transition.
func TestCancelWaitsForTransition(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "hang")
	landed := make(chan struct{})
	g.sessions.closeIf(func(*entry) bool { return true }, func(_ string, e *entry) *entry { <-landed; return e }) // closes sessions as the reaper does
	cancelled := make(chan error)
	go func() { cancelled <- g.Cancel(context.Background(), id) }()
	select {
	case <-cancelled:
		t.Error("cancelled nothing")
		close(landed)
		return
	case <-time.After(20 * time.Millisecond):
	}
	close(landed)
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	if done, ok := d.ends(t, sent).Body.(event.ResponseDone); !ok || done.Status != event.StatusCancelled {
		t.Errorf("%+v", done)
	}
}

func unfinished(t *testing.T, d *disk, id, turn string, head int64) {
	t.Helper()
	for _, b := range []event.Body{event.ResponseStart{ProviderID: "script"}, event.SessionUpdated{AgentSessionID: "newest"}} {
		head++
		if err := d.log.Append(t.Context(), id, head-1, event.Event{Session: id, Seq: head, At: time.Now(), Turn: turn, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
}

// A session with an unfinished turn and queued prompts is open only after the
// turn's end is in the log.
func TestOpenClosesUnfinishedTurnAndResumesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		rec, err := newRecord(nil, script.New(), d.dir, runnel.Options{}, resolution{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.cat.PutSession(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		unfinished(t, d, rec.ID, uuid.NewString(), 0)
		input, _ := json.Marshal(queuedPrompt{Input: runnel.Text("text")})
		turn := uuid.NewString()
		if err := d.cat.Enqueue(t.Context(), store.Queued{Session: rec.ID, Turn: turn, Input: input, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Load(t.Context(), rec.ID, ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if st, _ := d.log.State(t.Context(), rec.ID); len(st.Open) > 0 {
			t.Errorf("open: %v", st.Open)
		}
		if done, ok := d.ends(t, Sent{SessionID: rec.ID, TurnID: turn}).Body.(event.ResponseDone); !ok {
			t.Errorf("%+v", done)
		}
	})
}

// The record may be older than the log. The agent's conversation is then the
// last one in the log.
func TestRecoveryReadsAgentSessionFromLog(t *testing.T) {
	d := newDisk(t)
	rec, err := newRecord(nil, script.New(), d.dir, runnel.Options{}, resolution{})
	if err != nil {
		t.Fatal(err)
	}
	rec.AgentSessionID = "older"
	if err := d.cat.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	unfinished(t, d, rec.ID, uuid.NewString(), 0)
	g := d.open(t)
	defer closeIt(t, g)
	if st, err := g.Status(t.Context(), rec.ID); err != nil || st.AgentSessionID != "newest" {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestDeletedSessionIsNotWrittenAgain(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	e := g.sessions.peek(id)
	if err := g.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := g.records.write(t.Context(), e); err != nil { // as a recordWriter that took the entry earlier
		t.Fatal(err)
	}
	if _, err := d.cat.Session(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is back: %v", err)
	}
}

func TestKillDuringBoot(t *testing.T) {
	for name, end := range map[string]func(*Gateway, string) error{
		"kill":   func(g *Gateway, id string) error { return g.Kill(context.Background(), id) },
		"delete": func(g *Gateway, id string) error { return g.Delete(context.Background(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(t)
				opening, ready := 0, make(chan struct{})
				p := &fake{name: "fake"}
				var alive atomic.Int32
				p.open = func(o runnel.Options) (runnel.Conn, error) {
					if opening++; opening > 1 {
						<-ready
					}
					c, err := script.New().Open(context.Background(), o)
					alive.Add(1)
					return &counted{Conn: c, alive: &alive}, err
				}
				g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
				defer closeIt(t, g)
				st, err := g.Create(t.Context(), "fake", d.dir, runnel.Options{}, "")
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _, _ = g.Boot(context.Background(), st.SessionID, true) }()
				synctest.Wait()
				ended := make(chan error, 1)
				go func() { ended <- end(g, st.SessionID) }()
				synctest.Wait()
				close(ready)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if alive.Load() != 0 || g.sessions.peek(st.SessionID) != nil {
					t.Errorf("%d agents run, session open: %v", alive.Load(), g.sessions.peek(st.SessionID) != nil)
				}
			})
		})
	}
}

type counted struct {
	runnel.Conn
	alive  *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		c.alive.Add(-1)
	}
	return err
}
