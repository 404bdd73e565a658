// Package gateway keeps many sessions by id: it creates, loads, lists and ends
// them, hands prompts and decisions to the right one, and takes up after a
// restart what the process before it left.
//
// It names no agent. What it knows of one is what its provider says.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/store"
)

// Config is what a Gateway needs. Log, Catalogue and Providers are required.
type Config struct {
	Log       runnel.Log
	Catalogue store.Catalogue
	Providers []runnel.Provider

	DataDir         string        // where we keep our own files; no project may lie in it. Default: none, and no uploads
	TrustedDirs     []string      // projects in which the folder's own settings may run code, with all below them. Default: none
	AllowBypass     bool          // clients may run agents that never ask. Default: false
	ApprovalTimeout time.Duration // as runnel.Config. Default: for ever
	StallTimeout    time.Duration // as runnel.Config. Default: 90 s; negative: never
	ReattachWindow  time.Duration // how long a running turn's agent waits for the server after this one. Default: 60 s; negative: not at all
	IdleTimeout     time.Duration // after which an idle agent is ended; its session goes on with the next prompt. Default: 15 min; negative: never

	// Prewarm is the number of prewarmed agents: one for each of the pool keys
	// (kind of agent, directory, options) that were used last. Default: none.
	Prewarm    int
	PrewarmAge time.Duration // maximum age of an unused prewarmed agent. Default: 10 min

	// Filter is runnel.Options.Filter of every session. Default: none.
	Filter func(runnel.Options) runnel.Filter

	Logger *slog.Logger // Default: discards
}

// A Gateway is safe for use from anywhere. Its goroutines are the keeper, which
// writes the catalogue, the reaper, the pool's, and for moments those that open
// sessions, take up queued prompts and look at agents; Close waits for all of them.
type Gateway struct {
	cfg       Config
	log       *slog.Logger
	providers *detect.Index
	feed      feed
	detector  *detect.Detector
	pool      *prewarm.Pool
	keeper    keeper
	files     *attach.Store   // nil without a data directory
	ctx       context.Context // of the gateway's own work
	stop      context.CancelFunc
	work      sync.WaitGroup

	mu      sync.Mutex
	live    map[string]*entry
	flights map[string]*flight // sessions being opened or put away, by id
	closing bool
}

// A flight is the opening or putting away of one session, by one goroutine for
// all who want it.
type flight struct {
	done chan struct{} // closed once id and err are set
	id   string
	err  error
}

// Open returns a Gateway that has taken up what the process before it left:
// turns without an end are closed, half-made sessions are gone, and prompts
// that waited go on.
func Open(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.StallTimeout == 0 {
		cfg.StallTimeout = 90 * time.Second
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 15 * time.Minute
	}
	if cfg.ReattachWindow == 0 {
		cfg.ReattachWindow = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.DataDir != "" {
		dir, err := filepath.Abs(cfg.DataDir)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		cfg.DataDir = canonical(dir)
	}
	files, err := uploads(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, log: cfg.Logger, files: files,
		live: make(map[string]*entry), flights: make(map[string]*flight),
	}
	g.providers = detect.NewIndex(cfg.Providers)
	g.feed.init()
	g.keeper.init()
	g.ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.detector = detect.New(g.ctx, &g.work, cfg.Providers)
	g.pool = prewarm.New(g.ctx, prewarm.Config{Size: cfg.Prewarm, MaxAge: cfg.PrewarmAge, Start: g.startForPool, Logger: g.log})
	g.work.Go(g.keep)
	if err := g.recover(ctx); err != nil {
		return nil, errors.Join(err, g.Close(ctx))
	}
	if cfg.IdleTimeout > 0 {
		g.work.Go(g.reap)
	}
	if cfg.Prewarm > 0 {
		g.work.Go(func() { g.pool.Run(g.lastKeys) })
	}
	return g, nil
}

// Close ends every session's agent; turns that run end as cancelled. It returns
// once nothing of it is left, or with ctx's error.
func (g *Gateway) Close(ctx context.Context) error { return g.end(ctx, false) }

// HandOver is Close, but where a turn runs its agent is left to a Gateway after
// this one, for Config.ReattachWindow.
func (g *Gateway) HandOver(ctx context.Context) error { return g.end(ctx, true) }

func (g *Gateway) end(ctx context.Context, handOver bool) error {
	g.mu.Lock()
	g.closing = true
	entries := make([]*entry, 0, len(g.live))
	for _, e := range g.live {
		entries = append(entries, e)
	}
	g.mu.Unlock()
	g.detector.Close()

	done := make(chan struct{})
	go func() { // ends when Close would have, if ctx had let it
		defer close(done)
		var all sync.WaitGroup
		all.Go(g.pool.Close)
		for _, e := range entries {
			all.Go(func() {
				if !handOver || !e.session.Detach(ctx) {
					_ = e.session.Close()
				}
			})
		}
		all.Wait()
		g.stop()
		g.work.Wait()
		if g.files != nil {
			_ = g.files.Close()
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the sessions: %w", ctx.Err())
	}
}

// Log is what the sessions write to. Readers follow it by session and position.
func (g *Gateway) Log() runnel.Log { return g.cfg.Log }

// An Agent is a kind of agent this server can run; see package detect.
type Agent = detect.Agent

// Agents returns the kinds of agents, in the order of the configuration, with
// what is known of them on this machine: as of some minutes ago, or with now as
// of now. See [detect.Detector.Agents] for how long it waits.
func (g *Gateway) Agents(ctx context.Context, now bool) []Agent {
	list := g.detector.Agents(ctx, now)
	if !g.cfg.AllowBypass {
		for i := range list {
			list[i].Modes = slices.DeleteFunc(slices.Clone(list[i].Modes), func(mode string) bool { return mode == string(runnel.ModeBypass) })
		}
	}
	return list
}

// acquire returns the session with this id, opened without its agent if need
// be. It is not put away before the caller has released it.
func (g *Gateway) acquire(ctx context.Context, id string) (*entry, error) {
	for {
		g.mu.Lock()
		if g.closing {
			g.mu.Unlock()
			return nil, errClosing()
		}
		if e := g.live[id]; e != nil {
			e.users++
			g.mu.Unlock()
			return e, nil
		}
		f := g.flights[id]
		if f == nil {
			f = g.fly(id, func() (*entry, error) { return g.open(g.ctx, id) })
		}
		g.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f.err != nil {
			return nil, f.err
		}
	}
}

func (g *Gateway) release(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.users--
}

// fly runs f on a goroutine of its own, for all who want the session with this
// id; g.mu is held. What f returns becomes the live session.
func (g *Gateway) fly(id string, f func() (*entry, error)) *flight {
	fl := &flight{done: make(chan struct{})}
	g.flights[id] = fl
	g.work.Go(func() {
		e, err := f()
		g.mu.Lock()
		defer g.mu.Unlock()
		if e != nil {
			if g.closing { // Close has not seen it
				g.mu.Unlock()
				_ = e.session.Close()
				g.mu.Lock()
				err = errClosing()
			} else {
				g.live[id] = e
				if _, waiting := e.snapshot(); waiting > 0 {
					g.takeUp(e) // what waits may wait for nothing but this
				}
			}
		}
		fl.err = err
		delete(g.flights, id)
		close(fl.done)
	})
	return fl
}

// peek returns the session if it is open already.
func (g *Gateway) peek(id string) *entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live[id]
}

// record returns what the catalogue knows of a session.
func (g *Gateway) record(ctx context.Context, id string) (store.Session, error) {
	rec, err := g.cfg.Catalogue.Session(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return rec, runnel.Fail(runnel.SessionNotFound, "there is no such session")
	case err != nil:
		return rec, storeError(err)
	}
	return rec, nil
}

// open opens a session without starting its agent.
func (g *Gateway) open(ctx context.Context, id string) (*entry, error) {
	rec, err := g.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if rec.State == event.StateDead {
		return nil, runnel.Fail(runnel.SessionDead, "the session was ended; load it to go on with it")
	}
	p := g.providers.Named(rec.CLIType)
	if p == nil {
		return nil, runnel.Fail(runnel.UnsupportedCLIType, "this server no longer runs "+rec.CLIType)
	}
	opt, err := g.options(ctx, rec)
	if err != nil {
		return nil, err
	}
	waiting, err := g.cfg.Catalogue.Queue(ctx, id)
	if err != nil {
		return nil, storeError(err)
	}
	return g.start(ctx, p, opt, rec, len(waiting), runnel.Config{Dormant: true})
}

// start opens a session and enters it; the caller makes it known. cfg says only
// what is not the same for all.
func (g *Gateway) start(ctx context.Context, p runnel.Provider, opt runnel.Options, rec store.Session, waiting int, cfg runnel.Config) (*entry, error) {
	e := &entry{g: g, rec: rec, waiting: waiting}
	st, err := g.cfg.Log.State(ctx, rec.ID)
	if err != nil {
		if cfg.Conn != nil {
			_ = cfg.Conn.Close()
		}
		return nil, storeError(err)
	}
	e.known, e.head = st.Head, st.Head
	for _, t := range st.Open {
		e.turns = append(e.turns, span{turn: t.Turn, after: t.After})
	}
	opt.Keep = g.keepOf(rec.ID)
	cfg.ID, cfg.Log, cfg.Recorded = rec.ID, g.cfg.Log, e.recorded
	cfg.ApprovalTimeout, cfg.StallTimeout = g.cfg.ApprovalTimeout, max(g.cfg.StallTimeout, 0)
	e.session, err = runnel.Open(ctx, p, opt, cfg)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func errClosing() error {
	return runnel.Fail(runnel.StoreUnavailable, "the server is shutting down; try again when it is back")
}

// storeError is what a failing catalogue or log looks like from outside.
func storeError(err error) error {
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return runnel.Fail(runnel.StoreUnavailable, "the server cannot read or write its data now; see its log", err)
}
