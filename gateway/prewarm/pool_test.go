package prewarm

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a pool under test. It implements the start of agents and records the
// agents.
type rig struct {
	*Pool
	dir string
	run sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	takes  time.Duration
	fail   error
	plain  bool // agents have no settings that can be changed
	tries  int
	agents []*agent
}

// An agent is a connection of a rig.
type agent struct {
	runnel.Conn // nil: the pool calls only the methods below
	id          string
	key         Key
	closed      atomic.Bool
	dead        atomic.Bool
}

func (a *agent) Close() error { a.closed.Store(true); return nil }

func (a *agent) ExitStatus() (runnel.ExitStatus, bool) { return runnel.ExitStatus{}, a.dead.Load() }

// A setter is an agent in which every setting can be changed.
type setter struct{ *agent }

func (setter) SetModel(context.Context, string) error                         { return nil }
func (setter) SetPermissionMode(context.Context, runnel.PermissionMode) error { return nil }
func (setter) SetReasoningEffort(context.Context, string) error               { return nil }
func (setter) SetConfig(_ context.Context, id, value string) error            { return nil }

// open starts a pool with these keys. The rig closes it at the end of the test.
func open(t *testing.T, size int, recalled ...Key) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	r.Pool = New(t.Context(), Config{Size: size, Start: r.start, Logger: slog.New(slog.DiscardHandler)})
	r.run.Go(func() { r.Run(func(context.Context) []Key { return recalled }) })
	return r
}

func (r *rig) end() {
	r.Close()
	r.run.Wait()
}

func (r *rig) start(ctx context.Context, k Key, id string) (runnel.Conn, error) {
	r.mu.Lock()
	r.tries++
	takes, err, plain := r.takes, r.fail, r.plain
	r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	a := &agent{id: id, key: k}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents = append(r.agents, a)
	if plain {
		return a, nil
	}
	return setter{a}, nil
}

// started returns the agents, oldest first.
func (r *rig) started() []*agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.agents)
}

func (r *rig) key(opt runnel.Options) Key {
	if opt.Dir == "" {
		opt.Dir = r.dir
	}
	return Key{Provider: script.New(), Options: opt}
}

// settle waits until the pool has done everything that is due.
func settle() {
	<-time.After(refillDelay + time.Second)
	synctest.Wait()
}

// created makes the pool prewarm an agent for these options.
func (r *rig) created(opt runnel.Options) {
	r.Created(r.key(opt))
	settle()
}

func TestPrewarmedAgentIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		settle()
		if n := len(r.started()); n != 0 {
			t.Fatalf("%d agents were started without a key", n)
		}
		r.created(runnel.Options{})
		var all sync.WaitGroup
		var hits atomic.Int32
		for range 20 {
			all.Go(func() {
				a, set := r.Take(r.key(runnel.Options{}))
				if a == nil {
					return
				}
				hits.Add(1)
				if c, ok := a.Conn.(setter); !ok || c.id != a.ID || c.closed.Load() || !set.IsZero() {
					t.Errorf("took %+v, to set %+v", a, set)
				}
			})
		}
		all.Wait()
		if st := r.Stats(); hits.Load() != 1 || st != (Stats{Hits: 1, Misses: 19, Started: 1}) {
			t.Errorf("%d hits, %+v", hits.Load(), st)
		}
		settle() // the pool starts the next agent
		if st := r.Stats(); st.Ready != 1 || st.Started != 2 {
			t.Errorf("%+v", st)
		}
		if r.end(); r.started()[0].closed.Load() || !r.started()[1].closed.Load() {
			t.Error("the agent that was taken is not the pool's to stop, the other one is")
		}
	})
}

func TestOtherKeysMissAndReplace(t *testing.T) {
	for name, opt := range map[string]runnel.Options{
		"tools":     {Tools: []string{"Read"}},
		"prompt":    {SystemPromptAppend: "be kind"},
		"mcp":       {MCPServers: json.RawMessage(`{"a":{}}`)},
		"turns":     {MaxTurns: 3},
		"directory": {Dir: os.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t, 1)
				defer r.end()
				r.created(runnel.Options{})
				first := r.started()[0]
				if a, _ := r.Take(r.key(opt)); a != nil {
					t.Errorf("took %+v", a)
				}
				r.created(opt)
				if !Eligible(opt) {
					if first.closed.Load() || len(r.started()) != 1 {
						t.Errorf("an agent with MCP servers was prewarmed: %+v", r.Stats())
					}
					return
				}
				if last := r.started()[len(r.started())-1]; !first.closed.Load() || !last.key.equal(r.key(opt)) {
					t.Errorf("prewarmed with %+v; the one before was stopped: %v", last.key.Options, first.closed.Load())
				}
			})
		})
	}
}

func TestSettingsMakeAnAgentFit(t *testing.T) {
	want := runnel.Options{
		Model: "other", PermissionMode: runnel.ModePlan, ReasoningEffort: "low", Config: runnel.Values{"pace": "fast"},
	}
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		r.created(runnel.Options{})
		a, set := r.Take(r.key(want))
		if a == nil || set.Model != "other" || set.PermissionMode != runnel.ModePlan || set.ReasoningEffort != "low" || set.Config["pace"] != "fast" {
			t.Fatalf("took %+v, to set %+v", a, set)
		}
		r.created(want)
		if a, _ := r.Take(r.key(runnel.Options{})); a != nil {
			t.Error("no setting restores an agent's defaults")
		}
		if a, set := r.Take(r.key(want)); a == nil || !set.IsZero() {
			t.Errorf("took %+v, to set %+v", a, set)
		}
	})
	synctest.Test(t, func(t *testing.T) { // of two fitting agents, Take prefers the one that needs no change
		r := open(t, 2)
		defer r.end()
		r.created(want)
		r.created(runnel.Options{})
		if a, set := r.Take(r.key(want)); a == nil || a.Options.Model != "other" || !set.IsZero() {
			t.Errorf("took %+v, to set %+v", a, set)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		r.plain = true
		r.created(runnel.Options{})
		if a, _ := r.Take(r.key(runnel.Options{Model: "other"})); a != nil {
			t.Error("took an agent in which the model cannot be set")
		}
	})
}

func TestUnusedAgentsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		r.created(runnel.Options{})
		<-time.After(defaultMaxAge + checkInterval)
		synctest.Wait()
		if list := r.started(); len(list) != 2 || !list[0].closed.Load() || list[1].closed.Load() || r.Stats().Unused != 1 {
			t.Fatalf("after the maximum age: %d started; %+v", len(list), r.Stats())
		}
		<-time.After(2 * idleAfter)
		synctest.Wait()
		last := r.started()[len(r.started())-1]
		if st := r.Stats(); st.Ready != 0 || !last.closed.Load() {
			t.Errorf("without use: %+v", st)
		}
		n := len(r.started())
		<-time.After(24 * time.Hour)
		if more := len(r.started()) - n; more != 0 {
			t.Errorf("%d were started without use", more)
		}
		r.Use()
		settle()
		if r.Stats().Ready != 1 {
			t.Errorf("after use: %+v", r.Stats())
		}
	})
}

func TestEndedAgentIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		r.created(runnel.Options{})
		r.started()[0].dead.Store(true)
		if a, _ := r.Take(r.key(runnel.Options{})); a != nil || r.Stats().Failed != 1 {
			t.Errorf("took %+v; %+v", a, r.Stats())
		}
		<-time.After(checkInterval + maxBackoff)
		synctest.Wait()
		last := r.started()[len(r.started())-1]
		last.dead.Store(true)
		<-time.After(checkInterval + maxBackoff) // the pool notices the exit without a call of Take
		synctest.Wait()
		if st := r.Stats(); st.Failed != 2 || st.Ready != 1 || !last.closed.Load() {
			t.Errorf("%+v", st)
		}
	})
}

func TestPrewarmSkipsReplacedDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		dir := filepath.Join(r.dir, "project")
		mkdir := func() {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		mkdir()
		r.created(runnel.Options{Dir: dir})
		if err := os.Rename(dir, dir+"-before"); err != nil {
			t.Fatal(err)
		}
		mkdir()
		if a, _ := r.Take(r.key(runnel.Options{Dir: dir})); a != nil {
			t.Error("took an agent that works in the directory before")
		}
	})
}

func TestStartFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 1)
		defer r.end()
		r.fail = errors.New("not today")
		r.created(runnel.Options{})
		<-time.After(45 * time.Minute)
		synctest.Wait()
		r.mu.Lock()
		tries := r.tries
		r.fail = nil
		r.mu.Unlock()
		if tries < 5 || tries > 12 {
			t.Errorf("%d tries in 45 minutes", tries)
		}
		if st := r.Stats(); st.Failed != int64(tries) || st.Ready != 0 {
			t.Errorf("%+v after %d tries", st, tries)
		}
		<-time.After(maxBackoff)
		synctest.Wait()
		if st := r.Stats(); st.Ready != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestRecalledKeysArePrewarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		key := func(model string) Key {
			return Key{Provider: script.New(), Options: runnel.Options{Dir: dir, Model: model}}
		}
		r := open(t, 2, key("newest"), key("older"), key("oldest"))
		defer r.end()
		synctest.Wait()
		if list := r.started(); len(list) != 2 || list[0].key.Options.Model != "newest" || list[1].key.Options.Model != "older" {
			t.Errorf("%d started, %+v", len(list), r.Stats())
		}
	})
}

func TestCloseStopsAllAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 2)
		r.created(runnel.Options{})
		r.mu.Lock()
		r.takes = time.Hour
		r.mu.Unlock()
		r.created(runnel.Options{MaxTurns: 2}) // its agent is being started
		at := time.Now()
		r.end()
		if time.Since(at) != 0 {
			t.Errorf("it took %v", time.Since(at))
		}
		for _, a := range r.started() {
			if !a.closed.Load() {
				t.Error("an agent runs on")
			}
		}
		if a, _ := r.Take(r.key(runnel.Options{})); a != nil {
			t.Error("took an agent from a closed pool")
		}
	})
}

func TestEmptyPoolDoesNothing(t *testing.T) {
	p := New(t.Context(), Config{})
	p.Created(Key{script.New(), runnel.Options{Dir: t.TempDir()}})
	if a, _ := p.Take(Key{script.New(), runnel.Options{}}); a != nil || p.Stats() != (Stats{}) {
		t.Errorf("took %+v, %+v", a, p.Stats())
	}
	p.Close()
}

// Use does not wait for mu, so it does not delay prompts.
func TestUseDoesNotWait(t *testing.T) {
	p := New(t.Context(), Config{Size: 1})
	defer p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	used := make(chan struct{})
	go func() {
		defer close(used)
		p.Use()
	}()
	select {
	case <-used:
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
}

// A file system that hangs delays only callers that use it.
func TestHungDirectoryDelaysOnlyItsSessions(t *testing.T) {
	r := &rig{dir: t.TempDir()}
	hung := r.key(runnel.Options{Dir: t.TempDir()})
	fine := r.key(runnel.Options{})
	r.Pool = New(t.Context(), Config{Size: 2, Start: r.start, Logger: slog.New(slog.DiscardHandler)})
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.stat = func(dir string) (os.FileInfo, error) {
		if dir == hung.Options.Dir {
			once.Do(func() { close(asked) })
			<-release
		}
		return os.Stat(dir)
	}
	for _, k := range []Key{hung, fine} {
		dir, err := os.Stat(k.Options.Dir)
		if err != nil {
			t.Fatal(err)
		}
		r.slots = append(r.slots, &slot{Key: k, agent: &Agent{Conn: &agent{}, Options: k.Options, started: time.Now(), dir: dir}})
	}
	r.run.Go(func() { r.Run(func(context.Context) []Key { return nil }) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-asked
		if a, _ := r.Take(fine); a == nil {
			t.Error("no agent for a directory that answers")
		}
		r.Created(fine)
		_ = r.Stats()
		if a, _ := r.Take(hung); a != nil {
			t.Error("took an agent whose directory does not answer")
		}
		r.end()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("others wait for the directory")
	}
	close(release)
	<-done
}

// The agents that fit a session work in the same directory, so one stat tells
// whether it responds.
func TestHungDirectoryIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, 3)
		for _, model := range []string{"", "one", "two"} {
			r.created(runnel.Options{Model: model})
		}
		if st := r.Stats(); st.Ready != 3 {
			t.Fatalf("%+v", st)
		}
		release := make(chan struct{})
		r.stat = func(dir string) (os.FileInfo, error) {
			<-release
			return os.Stat(dir)
		}
		began := time.Now()
		a, _ := r.Take(r.key(runnel.Options{Model: "three"}))
		if took := time.Since(began); a != nil || took > statTimeout {
			t.Errorf("took %+v after %v, want none within %v", a, took, statTimeout)
		}
		r.end()
		close(release)
	})
}

// Every option that affects how an agent starts is in the key, or is the same
// for all sessions of a server, or belongs to one session.
func TestEveryOptionIsInTheKey(t *testing.T) {
	same := []string{"Takeover", "Dir", "Resume", "Fork", "Extensions", "Path", "Env", "EndWithContext", "OneTurn", "Trusted", "UntrustedDirs", "AllowBypass", "Timeout", "Approve", "Judge", "Tap", "Tapping", "Filter", "Warn", "Counters", "Limits", "InPlace", "Protected", "Withheld", "RefusedPorts", "Reached", "Unknown"}
	key := Key{Provider: script.New()}
	if a := (Key{Provider: script.New(), Options: runnel.Options{ServerDisallowedTools: []string{"Bash"}}}); key.equal(a) || !a.equal(a) {
		t.Error("an agent that lacks no tool is used where one is disallowed")
	}
	if a := (Key{Provider: script.New(), Options: runnel.Options{Delegation: runnel.DelegateNever}}); key.equal(a) || !a.equal(a) {
		t.Error("an agent that delegates is used where delegation is governed")
	}
	if a := (Key{Provider: script.New(), Options: runnel.Options{Subagents: []runnel.Subagent{{Name: "a"}}}}); key.equal(a) || !a.equal(a) {
		t.Error("an agent without a subagent is used where it is listed")
	}
	if a := (Key{Provider: script.New(), Options: runnel.Options{Allowed: []runnel.AllowedPath{{Path: "/data"}}}}); key.equal(a) || !a.equal(a) {
		t.Error("an agent without an allowed path is used where it is allowed")
	}
	typ := reflect.TypeFor[runnel.Options]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		hidden := strings.HasPrefix(f.Tag.Get("json"), "-") && !slices.Contains([]string{"ServerDisallowedTools", "Delegation", "Subagents", "Allowed"}, f.Name)
		if hidden != slices.Contains(same, f.Name) {
			t.Errorf("%s is new: is it the same for a prewarmed agent?", f.Name)
		}
	}
}
