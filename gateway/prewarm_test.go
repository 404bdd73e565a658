package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// started is a provider that records the agents that it started.
type started struct {
	script.Provider
	name  string
	takes time.Duration // how long an agent takes to become ready
	plain bool          // settings of its running agents cannot change

	mu     sync.Mutex // guards the fields below
	fail   error
	agents []*startedConn
	tries  int
}

func (p *started) Name() string {
	if p.name != "" {
		return p.name
	}
	return p.Provider.Name()
}

// Takes declares every option, so that a difference in any option matters to
// the pool.
func (p *started) Takes() runnel.Takes {
	return runnel.Takes{
		Tools: true, MaxTurns: true, MaxThinkingTokens: true, AddDirs: true, SystemPromptAppend: true, MCPServers: true,
		Resume: true, AnyEffort: true, Config: true,
	}
}

func (p *started) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	p.mu.Lock()
	p.tries++
	err, takes := p.fail, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	conn, err := p.Provider.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	c := &startedConn{Conn: conn, opt: opt, at: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agents = append(p.agents, c)
	if p.plain {
		return c, nil
	}
	return tellable{c}, nil
}

// list returns the agents that were started, oldest first.
func (p *started) list() []*startedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.agents)
}

// left counts the agents that were not closed.
func (p *started) left() (n int) {
	for _, a := range p.list() {
		if !a.closed.Load() {
			n++
		}
	}
	return n
}

type startedConn struct {
	runnel.Conn
	opt     runnel.Options
	at      time.Time
	prompts atomic.Int32
	closed  atomic.Bool
	dead    atomic.Bool
}

func (c *startedConn) Prompt(ctx context.Context, turn string, in runnel.Input) error {
	c.prompts.Add(1)
	return c.Conn.Prompt(ctx, turn, in)
}

func (c *startedConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *startedConn) ExitStatus() (runnel.ExitStatus, bool) {
	return runnel.ExitStatus{}, c.dead.Load()
}

type tellable struct{ *startedConn }

func (c tellable) SetModel(ctx context.Context, model string) error {
	if model == "none" {
		return runnel.Fail(runnel.InvalidRequest, "no such model")
	}
	c.opt.Model = model
	return nil
}

func (c tellable) SetPermissionMode(ctx context.Context, mode runnel.PermissionMode) error {
	c.opt.PermissionMode = mode
	return nil
}

func (c tellable) SetReasoningEffort(ctx context.Context, effort string) error { return nil }
func (c tellable) SetConfig(ctx context.Context, id, value string) error       { return nil }

// prewarming opens a gateway that prewarms agents. edit changes its Config.
func (d *disk) prewarming(t *testing.T, p runnel.Provider, edit ...func(*Config)) *Gateway {
	t.Helper()
	g := d.open(t, append([]func(*Config){func(c *Config) { c.Providers, c.Prewarm, c.StallTimeout = []runnel.Provider{p}, 1, -1 }}, edit...)...)
	synctest.Wait() // the pool has read the catalogue
	return g
}

// createWith creates a session and returns the agent of p that it uses.
func (d *disk) createWith(t *testing.T, g *Gateway, p *started, opt runnel.Options) (id string, agent *startedConn) {
	t.Helper()
	st, err := g.Create(t.Context(), p.Name(), d.dir, opt, "")
	if err != nil {
		t.Fatal(err)
	}
	sent := send(t, g, st.SessionID, "text")
	d.ends(t, sent)
	for _, a := range p.list() {
		if a.prompts.Load() > 0 {
			agent = a
		}
	}
	return st.SessionID, agent
}

// settle waits until the pool has refilled.
func settle() {
	<-time.After(4 * time.Second)
	synctest.Wait()
}

func TestCreateUsesPrewarmedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{takes: time.Second}
		g := d.prewarming(t, p)
		settle()
		if n := len(p.list()); n != 0 {
			t.Fatalf("%d agents were started for nobody", n)
		}
		_, cold := d.createWith(t, g, p, runnel.Options{})
		settle()
		if st := MetricsOf(g).Prewarmed(); st.Ready != 1 || st.Misses != 1 || st.Hits != 0 {
			t.Fatalf("after the first: %+v", st)
		}
		if cold != p.list()[0] {
			t.Error("the first session did not start its own")
		}

		asked := time.Now()
		st, err := g.Create(t.Context(), "", d.dir, runnel.Options{}, "")
		if err != nil || !st.IsAlive {
			t.Fatalf("%+v, %v", st, err)
		}
		if took := time.Since(asked); took != 0 {
			t.Errorf("the second session waited %v for its agent", took)
		}
		d.ends(t, send(t, g, st.SessionID, "text"))
		second := p.list()[1]
		if second.prompts.Load() != 1 || !second.at.Before(asked) {
			t.Errorf("the prewarmed agent was started at %v and has seen %d prompts; the session was asked for at %v", second.at, second.prompts.Load(), asked)
		}
		if n := len(p.list()); n != 2 {
			t.Errorf("%d were started at once", n)
		}
		d.ends(t, send(t, g, st.SessionID, "text")) // the agent stays with the session
		settle()
		if st := MetricsOf(g).Prewarmed(); st.Ready != 1 || st.Hits != 1 || st.Started != 2 {
			t.Errorf("after the second: %+v", st)
		}
		third := p.list()[2]
		closeIt(t, g)
		if third.prompts.Load() != 0 || p.left() != 0 {
			t.Errorf("the one that waits saw %d prompts; %d are left after the end", third.prompts.Load(), p.left())
		}
	})
}

// The pool stops prewarming when no client is active, and resumes at the next
// prompt.
func TestPromptResumesPrewarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		g := d.prewarming(t, p)
		defer closeIt(t, g)
		id, _ := d.createWith(t, g, p, runnel.Options{})
		<-time.After(3 * time.Hour)
		synctest.Wait()
		if st := MetricsOf(g).Prewarmed(); st.Ready != 0 || p.left() != 0 { // the session was closed as idle, too
			t.Errorf("nobody is here, but %+v, %d agents run", st, p.left())
		}
		d.ends(t, send(t, g, id, "text"))
		settle()
		if MetricsOf(g).Prewarmed().Ready != 1 {
			t.Errorf("%+v", MetricsOf(g).Prewarmed())
		}
	})
}

func TestCreateChangesSettingsOfPrewarmedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		g := d.prewarming(t, p)
		defer closeIt(t, g)
		d.createWith(t, g, p, runnel.Options{})
		settle()
		opt := runnel.Options{Model: "other", PermissionMode: runnel.ModePlan, ReasoningEffort: "low"}
		id, agent := d.createWith(t, g, p, opt)
		if agent != p.list()[1] || MetricsOf(g).Prewarmed().Hits != 1 || agent.opt.Model != "other" || agent.opt.PermissionMode != runnel.ModePlan {
			t.Errorf("the agent has %+v; %+v", agent.opt, MetricsOf(g).Prewarmed())
		}
		if st, err := g.Status(t.Context(), id); err != nil || st.PermissionMode != string(runnel.ModePlan) {
			t.Errorf("%+v, %v", st, err)
		}
		settle() // the pool key now has these settings; no setting restores the agent's defaults
		d.createWith(t, g, p, runnel.Options{})
		if st := MetricsOf(g).Prewarmed(); st.Hits != 1 || st.Misses != 2 {
			t.Errorf("%+v", st)
		}

		// A prewarmed agent that rejects the session's settings is closed, and
		// the session gets a new agent.
		settle()
		before := len(p.list())
		st, err := g.Create(t.Context(), "", d.dir, runnel.Options{Model: "none"}, "")
		if err != nil {
			t.Fatal(err)
		}
		d.ends(t, send(t, g, st.SessionID, "text"))
		if list := p.list(); !list[before-1].closed.Load() || list[before].opt.Model != "none" || list[before].prompts.Load() != 1 {
			t.Error("it was not started anew")
		}
	})
	synctest.Test(t, func(t *testing.T) { // an agent whose settings cannot change while it runs
		d, p := newDisk(t), &started{plain: true}
		g := d.prewarming(t, p)
		defer closeIt(t, g)
		d.createWith(t, g, p, runnel.Options{})
		settle()
		if d.createWith(t, g, p, runnel.Options{Model: "other"}); MetricsOf(g).Prewarmed().Hits != 0 {
			t.Error("got one with another model")
		}
	})
}

// A link that has replaced a directory leads to another directory, which may
// not be trusted.
func TestPrewarmSkipsDirectoryReplacedByLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		base := d.dir
		d.dir = filepath.Join(base, "project")
		for _, dir := range []string{d.dir, d.dir + "-other"} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		g := d.prewarming(t, p, func(c *Config) { c.TrustedDirs = []string{d.dir} })
		defer closeIt(t, g)
		if _, agent := d.createWith(t, g, p, runnel.Options{}); !agent.opt.Trusted {
			t.Fatal("the directory is not trusted")
		}
		if err := os.Remove(d.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(d.dir+"-other", d.dir); err != nil {
			t.Fatal(err)
		}
		settle()
		if st := MetricsOf(g).Prewarmed(); st.Started != 0 || st.Failed == 0 || len(p.list()) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestRestartPrewarmsKeysOfNewestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
		d.create(t, g)
		<-time.After(time.Minute)
		newest := canonical(t.TempDir())
		if _, err := g.Create(t.Context(), "", newest, runnel.Options{Model: "m"}, ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if _, err := g.Create(t.Context(), "", newest, runnel.Options{MCPServers: json.RawMessage(`{"a":{}}`)}, ""); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		closeIt(t, g)
		p.takes = time.Hour // a start of the server does not wait for prewarmed agents
		at := time.Now()
		g = d.prewarming(t, p)
		if time.Since(at) != 0 {
			t.Errorf("the start took %v", time.Since(at))
		}
		closeIt(t, g) // nor does the end of the server
		p.takes = 0
		g = d.prewarming(t, p)
		defer closeIt(t, g)
		synctest.Wait()
		if st := MetricsOf(g).Prewarmed(); st.Ready != 1 {
			t.Fatalf("%+v", st)
		}
		if last := p.list()[len(p.list())-1]; last.opt.Dir != newest || last.opt.Model != "m" || last.opt.Resume != "" {
			t.Errorf("waits with %+v", last.opt)
		}
	})
}

// A resumed session starts its own agent, because a prewarmed agent has a new
// conversation.
func TestResumedSessionStartsItsOwnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		g := d.prewarming(t, p, func(c *Config) { c.IdleTimeout = 5 * time.Minute })
		defer closeIt(t, g)
		id, _ := d.createWith(t, g, p, runnel.Options{})
		<-time.After(8 * time.Minute) // the idle session is closed, and another agent is prewarmed
		synctest.Wait()
		if st, _ := g.Status(t.Context(), id); st.IsAlive || MetricsOf(g).Prewarmed().Ready != 1 {
			t.Fatalf("%+v, %+v", st, MetricsOf(g).Prewarmed())
		}
		d.ends(t, send(t, g, id, "text"))
		last := p.list()[len(p.list())-1]
		if last.opt.Resume == "" || last.prompts.Load() != 1 || MetricsOf(g).Prewarmed().Hits != 0 || MetricsOf(g).Prewarmed().Ready != 1 {
			t.Errorf("went on with %+v; %+v", last.opt, MetricsOf(g).Prewarmed())
		}
	})
}

func TestCloseStopsPrewarmedAgents(t *testing.T) {
	for name, end := range map[string]func(*Gateway, context.Context) error{"close": (*Gateway).Close, "hand over": (*Gateway).HandOver} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, p := newDisk(t), &started{}
				g := d.prewarming(t, p, func(c *Config) { c.Prewarm = 2 })
				d.createWith(t, g, p, runnel.Options{})
				d.createWith(t, g, p, runnel.Options{MaxTurns: 2})
				settle()
				if MetricsOf(g).Prewarmed().Ready != 2 {
					t.Fatalf("%+v", MetricsOf(g).Prewarmed())
				}
				p.mu.Lock()
				p.takes = time.Hour
				p.mu.Unlock()
				d.createWith(t, g, p, runnel.Options{}) // the pool is starting its next agent when the gateway is closed
				settle()
				if err := end(g, t.Context()); err != nil {
					t.Fatal(err)
				}
				if p.left() != 0 {
					t.Errorf("%d are left", p.left())
				}
				if _, err := g.Create(t.Context(), "", d.dir, runnel.Options{MaxTurns: 2}, ""); err == nil {
					t.Error("a session was created after the end")
				}
			})
		})
	}
}

// A session whose record cannot be written gets no agent, not even a prewarmed
// one.
func TestFailedCreateStopsPrewarmedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := newDisk(t), &started{}
		cat := &failingCatalogue{Catalogue: d.cat}
		g := d.prewarming(t, p, func(c *Config) { c.Catalogue = cat })
		defer closeIt(t, g)
		d.createWith(t, g, p, runnel.Options{})
		settle()
		cat.fails.Store(true)
		_, err := g.Create(t.Context(), "", d.dir, runnel.Options{}, "")
		wantCode(t, err, runnel.StoreUnavailable)
		cat.fails.Store(false)
		if a := p.list()[1]; !a.closed.Load() || a.prompts.Load() != 0 {
			t.Error("the prewarmed agent runs on")
		}
	})
}

type failingCatalogue struct {
	store.Catalogue
	fails atomic.Bool
}

func (c *failingCatalogue) PutSession(ctx context.Context, s store.Session) error {
	if c.fails.Load() {
		return errors.New("the disk is gone")
	}
	return c.Catalogue.PutSession(ctx, s)
}
