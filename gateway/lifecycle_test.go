package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestRestart(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	first := send(t, g, id, "hang")
	waits, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	d.until(t, id, is[event.ItemDelta])
	dead, rec := d.copied(t, id)
	rec.AgentSessionID = "" // the newest record was not written
	_ = dead.cat.PutSession(t.Context(), rec)
	queue, _ := d.cat.Queue(t.Context(), "")
	for _, q := range queue {
		q.Input, _ = d.cat.QueuedInput(t.Context(), q.Session, q.Turn)
		_ = dead.cat.Enqueue(t.Context(), q)
	}
	// Add a queued prompt whose turn has already started, and a session whose
	// creation was not completed.
	_ = dead.cat.Enqueue(t.Context(), store.Queued{Session: id, Turn: first.TurnID, Input: json.RawMessage(`{"input":{"text":"hang"}}`)})
	half := rec
	half.ID, half.State = "00000000-0000-7000-8000-000000000001", event.StateLoading
	_ = dead.cat.PutSession(t.Context(), half)
	closeIt(t, g)

	var resumed atomic.Value
	g = dead.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{&fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
			resumed.Store(o.Resume)
			return script.New().Open(context.Background(), o)
		}}}
	})
	defer closeIt(t, g)
	end := dead.ends(t, first)
	if f, ok := end.Body.(event.ResponseError); !ok || f.Error.Code != string(runnel.ProcessCrash) {
		t.Errorf("the turn that ran ended as %+v", end.Body)
	}
	if done, ok := dead.ends(t, waits).Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted {
		t.Errorf("the prompt that waited ended as %+v", done)
	}
	if resumed.Load() == "" {
		t.Error("the agent was not resumed")
	}
	begun := map[string]int{}
	for ev := range dead.log.Read(t.Context(), id, 0) {
		if is[event.ResponseStart](ev) {
			begun[ev.Turn]++
		}
	}
	if len(begun) != 2 || begun[first.TurnID] != 1 || begun[waits.TurnID] != 1 {
		t.Errorf("turns began: %v", begun)
	}
	if _, err := g.Status(t.Context(), half.ID); runnel.CodeOf(err) != runnel.SessionNotFound {
		t.Errorf("the half-made session: %v", err)
	}
}

// copied returns a copy of the stored data of a session, and its record. It is
// what remains if the gateway dies now, before it can close anything.
func (d *disk) copied(t *testing.T, id string) (*disk, store.Session) {
	t.Helper()
	dead := &disk{dir: d.dir}
	dead.cat = memory.New(&dead.log)
	var evs []event.Event
	for ev := range d.log.Read(t.Context(), id, 0) {
		evs = append(evs, ev)
	}
	rec, err := d.cat.Session(t.Context(), id)
	if err := errors.Join(err, dead.log.Append(t.Context(), id, 0, evs...), dead.cat.PutSession(t.Context(), rec)); err != nil {
		t.Fatal(err)
	}
	return dead, rec
}

// The gateway and the agent end during a turn that has its own settings. The
// next agent starts with the settings of the session.
func TestCrashLeavesTheSettingsOfTheSession(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{Config: runnel.Values{"thoughts": "false"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := st.SessionID
	d.ends(t, send(t, g, id, "text"))
	set := runnel.Options{Model: "m2", PermissionMode: runnel.ModeAcceptEdits, ReasoningEffort: "low", Config: runnel.Values{"pace": "fast"}}
	sent, err := g.Send(t.Context(), id, Prompt{Text: "hang", Options: set})
	if err != nil {
		t.Fatal(err)
	}
	d.until(t, id, func(ev event.Event) bool { return ev.Turn == sent.TurnID && is[event.ItemDelta](ev) })
	if st, err := g.Status(t.Context(), id); err != nil || st.ModelID != "m2" || st.PermissionMode != "acceptEdits" {
		t.Errorf("while the turn runs: %+v, %v", st, err)
	}
	dead, _ := d.copied(t, id)
	closeIt(t, g)

	var started runnel.Options
	g = dead.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{&fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
			started = o
			return script.New().Open(context.Background(), o)
		}}}
	})
	defer closeIt(t, g)
	dead.ends(t, sent)
	if st, err := g.Status(t.Context(), id); err != nil || st.ModelID != "scripted" || st.PermissionMode != "default" || !maps.Equal(st.Given, runnel.Values{"thoughts": "false"}) {
		t.Errorf("after the crash: %+v, %v", st, err)
	}
	dead.ends(t, send(t, g, id, "text"))
	// The agent may have stored the model and the effort of the interrupted
	// turn in its conversation, so the session's own values must be given
	// explicitly.
	if o := started; o.Model != "scripted" || o.ReasoningEffort != "medium" || o.PermissionMode != "" || !maps.Equal(o.Config, runnel.Values{"thoughts": "false"}) {
		t.Errorf("the next agent was started with %+v", o)
	}
}

func TestKillAndLoad(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "hang")
	if _, err := g.Send(t.Context(), id, Prompt{Text: "text", Queue: true}); err != nil {
		t.Fatal(err)
	}
	d.until(t, id, is[event.ItemDelta])
	if err := g.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.ends(t, sent)
	_, err := g.Send(t.Context(), id, Prompt{Text: "text"})
	wantCode(t, err, runnel.SessionDead)
	if err := g.Kill(t.Context(), id); err != nil {
		t.Errorf("a second kill: %v", err)
	}
	if list, _ := g.List(t.Context(), Filter{}); len(list) != 0 {
		t.Errorf("still listed: %+v", list)
	}
	list, _ := g.List(t.Context(), Filter{ProjectDir: d.dir, Dead: true})
	if len(list) != 1 || list[0].State != event.StateDead || list[0].LastSeq == 0 || list[0].Queued != 0 {
		t.Errorf("with the ended ones: %+v", list)
	}
	if st, err := g.Load(t.Context(), id, ""); err != nil || st.State != event.StateOpen {
		t.Errorf("load: %+v, %v", st, err)
	}
	d.ends(t, send(t, g, id, "text"))
}

// An ended session can be reopened only if its directory still exists and an
// agent may start there.
func TestEndedSessionStaysEndedWithoutItsDirectory(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	dir := filepath.Join(d.dir, "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := g.Create(t.Context(), "script", dir, runnel.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Kill(t.Context(), st.SessionID), os.Remove(dir)); err != nil {
		t.Fatal(err)
	}
	_, err = g.Load(t.Context(), st.SessionID, "")
	wantCode(t, err, runnel.WorkingRootInaccessible)
	if !strings.Contains(runnel.Safe(err).Message, dir) {
		t.Errorf("the error does not name the directory: %v", err)
	}
	if now, err := g.Status(t.Context(), st.SessionID); err != nil || now.State != event.StateDead {
		t.Errorf("%+v, %v", now, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if st, err = g.Load(t.Context(), st.SessionID, ""); err != nil || st.State != event.StateOpen {
		t.Errorf("with its directory: %+v, %v", st, err)
	}
}

func TestIdleSessionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t, func(c *Config) { c.IdleTimeout, c.StallTimeout = time.Minute, -1 })
		defer closeIt(t, g)
		id, busy := d.create(t, g), d.create(t, g)
		first := send(t, g, id, "text")
		d.ends(t, first)
		send(t, g, busy, "hang")
		<-time.After(3 * time.Minute)
		synctest.Wait()
		if g.sessions.peek(id) != nil || g.sessions.peek(busy) == nil {
			t.Errorf("open: the idle one %v, the busy one %v", g.sessions.peek(id) != nil, g.sessions.peek(busy) != nil)
		}
		st, err := g.Status(t.Context(), id)
		if err != nil || st.IsAlive || st.State != event.StateOpen || st.LastSeq == 0 || st.Title != "text" {
			t.Errorf("put away: %+v, %v", st, err)
		}
		d.ends(t, send(t, g, id, "text"))
		if again, _ := g.Status(t.Context(), id); again.AgentSessionID != st.AgentSessionID {
			t.Errorf("went on as %s, was %s", again.AgentSessionID, st.AgentSessionID)
		}
	})
}

func TestConcurrentOpensShareOne(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	closeIt(t, g)
	var opened atomic.Int32
	g = d.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{&fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
			opened.Add(1)
			return script.New().Open(context.Background(), o)
		}}}
	})
	defer closeIt(t, g)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			_, err := g.Send(t.Context(), id, Prompt{Text: "hang"})
			if code := runnel.CodeOf(err); code != "" && code != runnel.TurnInProgress {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.until(t, id, is[event.ItemDelta])
	if n := opened.Load(); n != 1 {
		t.Errorf("%d agents were started", n)
	}
}

func TestLoadForeign(t *testing.T) {
	d := newDisk(t)
	p := &fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) { return script.New().Open(context.Background(), o) }}
	p.kept = []runnel.Conversation{{AgentSessionID: "abc", Dir: d.dir, Title: "From a terminal", File: "/agent/abc.jsonl"}, {AgentSessionID: "nowhere", File: "/agent/nowhere.jsonl"}}
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
	defer closeIt(t, g)
	_, err := g.Status(t.Context(), "script:abc")
	wantCode(t, err, runnel.SessionNotFound)
	_, err = g.Load(t.Context(), "script:nobody", "")
	wantCode(t, err, runnel.SessionNotFound)
	_, err = g.Load(t.Context(), "script:abc", "/etc/passwd")
	wantCode(t, err, runnel.SessionNotFound)
	_, err = g.Load(t.Context(), "script:nowhere", "")
	wantCode(t, err, runnel.WorkingRootInaccessible)
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			st, err := g.Load(t.Context(), "script:abc", "")
			if err != nil {
				t.Error(err)
			}
			ids[i] = st.SessionID
		})
	}
	all.Wait()
	if len(slices.Compact(ids)) != 1 {
		t.Fatalf("copied more than once: %v", ids)
	}
	st, err := g.Status(t.Context(), "script:abc")
	if err != nil || st.Title != "From a terminal" || st.AgentSessionID != "abc" || st.LastLine != "hello" || st.LastSeq == 0 {
		t.Errorf("got %+v, %v", st, err)
	}
	sent, err := g.Send(t.Context(), "script:abc", Prompt{Text: "text"})
	if err != nil {
		t.Fatal(err)
	}
	d.ends(t, sent)
	if p.resumed.Load() != "abc" {
		t.Errorf("resumed %v", p.resumed.Load())
	}
}

func TestForkUnsupported(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	_, err := g.Fork(t.Context(), d.create(t, g))
	wantCode(t, err, runnel.UnsupportedCapability)
}

func TestFork(t *testing.T) {
	d := newDisk(t)
	p := &forking{}
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
	defer closeIt(t, g)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	was, _ := g.Status(t.Context(), id)
	st, err := g.Fork(t.Context(), id)
	if err != nil || st.SessionID == id {
		t.Fatalf("got %+v, %v", st, err)
	}
	if p.forked.Load() != was.AgentSessionID {
		t.Errorf("forked %v, want %s", p.forked.Load(), was.AgentSessionID)
	}
	items := func(id string) (n int) {
		for ev := range d.log.Read(t.Context(), id, 0) {
			if ev.Session != id {
				t.Fatalf("an event of %s is in the log of %s", ev.Session, id)
			}
			if is[event.ItemDone](ev) {
				n++
			}
		}
		return n
	}
	if items(st.SessionID) != items(id) {
		t.Errorf("the copy has %d items, the original %d", items(st.SessionID), items(id))
	}
	d.ends(t, send(t, g, st.SessionID, "text"))
	if items(st.SessionID) != items(id)+2 {
		t.Errorf("the original changed with the copy")
	}
}

func TestBoot(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	if _, b, err := g.Boot(t.Context(), id, false); err != nil || b.Started || b.Reason != "already_booted" {
		t.Errorf("running: %+v, %v", b, err)
	}
	d.ends(t, send(t, g, id, "text"))
	closeIt(t, g)
	fails := true
	var resumes []string
	g = d.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{&fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
			resumes = append(resumes, o.Resume)
			if fails && o.Resume != "" {
				return nil, errors.New("cannot resume")
			}
			return script.New().Open(context.Background(), o)
		}}}
	})
	defer closeIt(t, g)
	st, b, err := g.Boot(t.Context(), id, false)
	if err != nil || !b.Started || b.Resumed || !st.IsAlive || len(resumes) != 2 || resumes[0] == "" || resumes[1] != "" {
		t.Errorf("a failed resume: %+v %+v, %v, tried %q", st, b, err, resumes)
	}
	fails = false
	if _, b, err := g.Boot(t.Context(), id, true); err != nil || b.Reason != "forced" || b.Resumed {
		t.Errorf("forced: %+v, %v", b, err)
	}
	d.ends(t, send(t, g, id, "text"))
}

func TestDelete(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "hang")
	wantCode(t, g.Delete(t.Context(), id), runnel.TurnInProgress)
	if err := g.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.ends(t, sent)
	if err := g.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := g.Status(t.Context(), id)
	wantCode(t, err, runnel.SessionNotFound)
	wantCode(t, g.Delete(t.Context(), id), runnel.SessionNotFound)
}

func TestSettingsSurvive(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	if st, err := g.Set(t.Context(), id, runnel.Options{Model: "better", PermissionMode: runnel.ModePlan}); err != nil || st.ModelID != "better" || st.PermissionMode != "plan" {
		t.Fatalf("got %+v, %v", st, err)
	}
	_, err := g.Set(t.Context(), id, runnel.Options{PermissionMode: runnel.ModeBypass})
	wantCode(t, err, runnel.InvalidRequest)
	closeIt(t, g)
	var opt atomic.Value
	g = d.open(t, func(c *Config) {
		c.Providers = []runnel.Provider{&fake{name: "script", open: func(o runnel.Options) (runnel.Conn, error) {
			opt.Store(o)
			return script.New().Open(context.Background(), o)
		}}}
	})
	defer closeIt(t, g)
	d.ends(t, send(t, g, id, "text"))
	if o := opt.Load().(runnel.Options); o.Model != "better" || o.PermissionMode != runnel.ModePlan {
		t.Errorf("started with %+v", o)
	}
}

func TestCloseEndsTurns(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	var sents []Sent
	for range 10 {
		sents = append(sents, send(t, g, d.create(t, g), "hang"))
	}
	closeIt(t, g)
	for _, s := range sents {
		if st, _ := d.log.State(t.Context(), s.SessionID); len(st.Open) != 0 {
			t.Errorf("the turn of %s has no end", s.SessionID)
		}
	}
	_, err := g.Send(t.Context(), sents[0].SessionID, Prompt{Text: "text"})
	wantCode(t, err, runnel.StoreUnavailable)
}

// tidy is a provider that prepares each prompt by adding a mark to its text.
type tidy struct{ forking }

func (*tidy) Prepare(_ context.Context, in runnel.Input) (runnel.Input, error) {
	in.Text += " (prepared)"
	return in, nil
}

// A forked session prepares prompts in the same way as any other.
func TestForkPreparesPrompts(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{&tidy{}} })
	defer closeIt(t, g)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	st, err := g.Fork(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	d.ends(t, send(t, g, st.SessionID, "text"))
	var asked []string
	for ev, err := range d.log.Read(t.Context(), st.SessionID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		done, _ := ev.Body.(event.ItemDone)
		if m, ok := done.FinalItem.(event.Message); ok && m.Origin == event.OriginUser {
			asked = append(asked, m.Content)
		}
	}
	if len(asked) != 2 || asked[0] != "text (prepared)" || asked[1] != asked[0] {
		t.Errorf("the agent was asked %q", asked)
	}
	_, err = g.Set(t.Context(), st.SessionID, runnel.Options{ReasoningEffort: "warp"})
	wantCode(t, err, runnel.InvalidRequest)
	e, err := g.lock(t.Context(), st.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer g.unlock(e)
	wantCode(t, e.session.CheckSettings(t.Context(), runnel.Settings{ReasoningEffort: "warp"}), runnel.InvalidRequest)
}
