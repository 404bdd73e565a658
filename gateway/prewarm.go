package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// Of the agents that are kept ready.
const (
	refillPause = 2 * time.Second  // after one was used: the turn that begins now comes first
	refillTime  = time.Minute      // that an agent has to become ready
	failPause   = 5 * time.Second  // after the first failure; then twice as long each time
	maxPause    = 10 * time.Minute // between failures
	lookEvery   = 15 * time.Second // whether those that are ready still run
	quietAfter  = time.Hour        // without a prompt or a new session nothing is kept ready
)

// A pool keeps agents ready for the sessions that are probably created next:
// one in each of the places that were used last. Its goroutine, run, starts and
// ends them, one after the other. The agents wait in a handshake's end: they
// have seen no prompt and belong to no session. Each was started under the id
// that its session will have, so that a restarted server knows them for nobody's
// and ends them.
type pool struct {
	size  int           // 0: none is kept
	age   time.Duration // after which one is replaced
	start func(ctx context.Context, pl *place, id string) (runnel.Conn, error)
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	kick  chan struct{} // one token: something has changed
	used  atomic.Int64  // when anything here was, in Unix nanoseconds: prompts do not wait for mu

	mu      sync.Mutex // guards the rest
	places  []*place   // used last first
	leaving []*warm    // to be ended
	closed  bool
	stats   Prewarmed
}

// A place is where sessions are created: everything that an agent is started
// with, but for its session.
type place struct {
	provider runnel.Provider
	opt      runnel.Options // with Dir
	ready    *warm          // nil: none is
	after    time.Time      // when the next one may be started
	pause    time.Duration  // after the next failure
}

// A warm is an agent that waits for its session.
type warm struct {
	id   string // of the session that it will be
	conn runnel.Conn
	opt  runnel.Options // it was started with
	at   time.Time
	dir  os.FileInfo // its directory then
}

// Prewarmed counts the agents that were kept ready.
type Prewarmed struct {
	Ready   int   // now
	Hits    int64 // sessions that got one
	Misses  int64 // sessions that got none
	Started int64
	Failed  int64 // did not start, or ended while they waited
	Unused  int64 // ended because nobody wanted them
}

func newPool(ctx context.Context, size int, age time.Duration, log *slog.Logger, start func(context.Context, *place, string) (runnel.Conn, error)) *pool {
	p := &pool{size: size, age: cmp.Or(age, 10*time.Minute), start: start, log: log, kick: make(chan struct{}, 1)}
	p.used.Store(time.Now().UnixNano())
	p.ctx, p.stop = context.WithCancel(ctx)
	return p
}

// use notes that somebody is here. It does not block: mu is held while directories are looked at, and one may hang.
func (p *pool) use() {
	if p.size == 0 {
		return
	}
	p.used.Store(time.Now().UnixNano())
	token(p.kick)
}

// created notes that a session was created: it is likely that another is, there.
func (p *pool) created(provider runnel.Provider, opt runnel.Options) {
	if p.size == 0 || !preparable(opt) {
		return
	}
	p.mu.Lock()
	p.add(&place{provider: provider, opt: opt, after: time.Now().Add(refillPause)}, true)
	p.mu.Unlock()
	p.use()
}

// preparable reports whether an agent may be started with these options for
// nobody. Servers that a session brings along run commands of its own: they are
// started for it alone.
func preparable(opt runnel.Options) bool { return len(opt.MCPServers) == 0 }

// add enters a place, first or last, unless it is known; p.mu is held.
func (p *pool) add(pl *place, first bool) {
	i := slices.IndexFunc(p.places, func(of *place) bool { return of.same(pl) })
	if i >= 0 {
		known := p.places[i]
		if !first {
			return
		}
		p.places = slices.Delete(p.places, i, i+1)
		known.after = later(known.after, pl.after)
		pl = known
	}
	if first {
		p.places = slices.Insert(p.places, 0, pl)
	} else {
		p.places = append(p.places, pl)
	}
	for len(p.places) > p.size {
		last := len(p.places) - 1
		p.dismiss(p.places[last])
		p.places = p.places[:last]
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dismiss gives up the agent of a place; p.mu is held.
func (p *pool) dismiss(pl *place) {
	switch {
	case pl.ready == nil:
		return
	case pl.ready.ended():
		p.stats.Failed++
		pl.failed(time.Now())
	default:
		p.stats.Unused++
	}
	p.leaving = append(p.leaving, pl.ready)
	pl.ready = nil
}

// take returns an agent for a session that is to be created with these options,
// and what of them it has to be told: nil if none is ready.
func (p *pool) take(provider runnel.Provider, opt runnel.Options) (*warm, runnel.Settings) {
	if p.size == 0 {
		return nil, runnel.Settings{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer token(p.kick)
	if p.closed {
		return nil, runnel.Settings{}
	}
	want := &place{provider: provider, opt: opt}
	var best *place
	var tell runnel.Settings
	for _, pl := range p.places {
		if pl.ready == nil || pl.provider.Name() != provider.Name() {
			continue
		}
		if !pl.ready.usable(p.age) {
			p.dismiss(pl)
			continue
		}
		set, ok := pl.apart(want)
		if !ok || !settable(pl.ready.conn, set) || best != nil && !set.IsZero() {
			continue
		}
		if best, tell = pl, set; set.IsZero() {
			break
		}
	}
	if best == nil {
		p.stats.Misses++
		return nil, runnel.Settings{}
	}
	w := best.ready
	best.ready, best.after, best.pause = nil, time.Now().Add(refillPause), 0
	p.stats.Hits++
	return w, tell
}

// same reports whether agents of both places are started alike.
func (pl *place) same(as *place) bool {
	set, ok := pl.apart(as)
	return ok && set.IsZero()
}

// apart returns what an agent of pl has to be told to be one of as: its model,
// its mode, its settings. It reports false where that is not enough.
func (pl *place) apart(as *place) (set runnel.Settings, ok bool) {
	if pl.provider.Name() != as.provider.Name() || pl.opt.Dir != as.opt.Dir {
		return set, false
	}
	have, want := pl.opt, as.opt
	for _, s := range []struct {
		have, want string
		set        *string
	}{
		{have.Model, want.Model, &set.Model},
		{have.ReasoningEffort, want.ReasoningEffort, &set.ReasoningEffort},
		{string(have.PermissionMode), string(want.PermissionMode), (*string)(&set.PermissionMode)},
	} {
		if s.have != s.want {
			if s.want == "" {
				return set, false // there is no way back to the agent's own
			}
			*s.set = s.want
		}
	}
	for id := range have.Config {
		if _, ok := want.Config[id]; !ok {
			return set, false
		}
	}
	for id, value := range want.Config {
		if had, ok := have.Config[id]; !ok || had != value {
			if set.Config == nil {
				set.Config = make(runnel.Values)
			}
			set.Config[id] = value
		}
	}
	return set, key(set.Apply(have)) == key(want)
}

// key is all that a client says of how an agent runs. What only the server says
// is the same for all sessions in a directory.
func key(opt runnel.Options) string {
	if len(opt.Config) == 0 {
		opt.Config = nil
	}
	b, err := json.Marshal(opt)
	if err != nil {
		return uuid.NewString() // like no other
	}
	return string(b)
}

// settable reports whether a live agent can be told of settings.
func settable(c runnel.Conn, set runnel.Settings) bool {
	_, model := c.(runnel.ModelSetter)
	_, mode := c.(runnel.ModeSetter)
	_, effort := c.(runnel.EffortSetter)
	_, config := c.(runnel.ConfigSetter)
	return (set.Model == "" || model) && (set.PermissionMode == "" || mode) && (set.ReasoningEffort == "" || effort) && (len(set.Config) == 0 || config)
}

// usable reports whether an agent may be handed out: it runs, is not too old,
// and its directory is still the one that has this name.
func (w *warm) usable(age time.Duration) bool {
	if w.ended() || time.Since(w.at) >= age {
		return false
	}
	now, err := os.Stat(w.opt.Dir)
	return err == nil && w.dir != nil && os.SameFile(now, w.dir)
}

func (w *warm) ended() bool {
	x, ok := w.conn.(runnel.Exiter)
	if !ok {
		return false
	}
	_, ended := x.ExitStatus()
	return ended
}

// run starts and ends agents until the pool is closed. The places to begin with
// come from recall.
func (p *pool) run(recall func(ctx context.Context) []*place) {
	for _, pl := range recall(p.ctx) {
		p.mu.Lock()
		p.add(pl, false)
		p.mu.Unlock()
	}
	for {
		pl, gone, wait := p.due(time.Now())
		for _, w := range gone {
			_ = w.conn.Close()
		}
		if pl != nil {
			p.fill(pl)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.kick:
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// due returns what is to be done now: where to start an agent, and which to end.
// If it is nothing, it is asked again after wait.
func (p *pool) due(now time.Time) (fill *place, end []*warm, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, lookEvery
	}
	wait = lookEvery
	quiet := now.Sub(time.Unix(0, p.used.Load())) >= quietAfter
	for _, pl := range p.places {
		if pl.ready != nil && !pl.ready.usable(p.age) {
			p.dismiss(pl)
		}
		if pl.ready != nil || quiet || fill != nil {
			continue
		}
		if !now.Before(pl.after) {
			fill = pl
		} else {
			wait = min(wait, pl.after.Sub(now))
		}
	}
	end, p.leaving = p.leaving, nil
	return fill, end, wait
}

// failed has a place wait before the next try.
func (pl *place) failed(now time.Time) {
	pl.pause = min(max(2*pl.pause, failPause), maxPause)
	pl.after = now.Add(pl.pause)
}

// fill starts an agent for a place.
func (p *pool) fill(pl *place) {
	ctx, cancel := context.WithTimeout(p.ctx, refillTime)
	defer cancel()
	w := &warm{id: uuid.Must(uuid.NewV7()).String(), opt: pl.opt, at: time.Now()}
	var err error
	if w.dir, err = os.Stat(pl.opt.Dir); err == nil {
		w.conn, err = p.start(ctx, pl, w.id)
	}
	p.mu.Lock()
	if err != nil {
		if !p.closed {
			p.stats.Failed++
			pl.failed(time.Now())
			p.log.LogAttrs(p.ctx, slog.LevelInfo, "no agent could be kept ready", slog.String("agent", pl.provider.Name()),
				slog.String("error", runnel.Safe(err).Message), slog.Duration("pause", pl.pause))
		}
		p.mu.Unlock()
		return
	}
	p.stats.Started++
	if wanted := slices.Contains(p.places, pl); p.closed || !wanted {
		p.mu.Unlock()
		_ = w.conn.Close()
		return
	}
	pl.ready = w
	p.mu.Unlock()
}

// close ends all agents that wait, and returns when nothing is left of them. One
// that is just being started is ended by run, which ends soon.
func (p *pool) close() {
	p.stop()
	p.mu.Lock()
	p.closed = true
	for _, pl := range p.places {
		p.dismiss(pl)
	}
	gone := p.leaving
	p.leaving = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, w := range gone {
		all.Go(func() { _ = w.conn.Close() })
	}
	all.Wait()
}

// Prewarmed says how many agents are ready for a session, and how many were.
func (g *Gateway) Prewarmed() Prewarmed {
	p := g.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stats
	for _, pl := range p.places {
		if pl.ready != nil {
			st.Ready++
		}
	}
	return st
}

// startWarm starts an agent for a session that is not there yet.
func (g *Gateway) startWarm(ctx context.Context, pl *place, id string) (runnel.Conn, error) {
	dir, err := g.projectDir(pl.opt.Dir)
	if err != nil {
		return nil, err
	}
	if dir != pl.opt.Dir { // a link took its place: sessions there are in another directory, with another trust
		return nil, inaccessible("the project directory is another one now")
	}
	opt := pl.opt
	opt.Keep = g.keepOf(id)
	return pl.provider.Open(ctx, opt)
}

// lastPlaces returns where the newest sessions are.
func (g *Gateway) lastPlaces(ctx context.Context) []*place {
	recs, err := g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Limit: 10 * g.pool.size})
	if err != nil {
		return nil
	}
	var places []*place
	for _, rec := range recs {
		p := g.providers.Named(rec.CLIType)
		if p == nil {
			continue
		}
		var opt runnel.Options
		if len(rec.Options) > 0 && json.Unmarshal(rec.Options, &opt) != nil {
			continue
		}
		if opt, err = g.completed(opt, rec.ProjectDir); err == nil && preparable(opt) {
			places = append(places, &place{provider: p, opt: opt})
		}
	}
	return places
}
