package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/store"
)

// Create starts an agent in a directory, under a profile if persona is set. If
// it fails, nothing is left.
func (g *Gateway) Create(ctx context.Context, cliType, dir string, opt runnel.Options, persona string) (Status, error) {
	p, err := g.providers.Choose(cliType)
	if err != nil {
		return Status{}, err
	}
	if dir, err = g.projectDir(dir); err != nil {
		return Status{}, err
	}
	if opt, err = g.completed(opt, dir); err != nil {
		return Status{}, err
	}
	if err := g.profile(persona); err != nil {
		return Status{}, err
	}
	rec, err := newRecord(p, dir, opt)
	if err != nil {
		return Status{}, err
	}
	b := beginning{provider: p, opt: opt, rec: rec}
	key := prewarm.Key{Provider: p, Options: opt}
	if b.agent, b.settings = g.pool.Take(key); b.agent != nil {
		b.rec.ID = b.agent.ID
	}
	st, err := g.begin(ctx, b)
	if err == nil {
		g.pool.Created(key)
	}
	return st, err
}

// Fork makes a session that continues from a copy of the one with this id.
func (g *Gateway) Fork(ctx context.Context, ref string) (Status, error) {
	e, err := g.lock(ctx, ref) // no turn begins while the log is copied
	if err != nil {
		return Status{}, err
	}
	defer g.unlock(e)
	from, _ := e.snapshot()
	p, err := g.providers.Choose(from.CLIType)
	if err != nil {
		return Status{}, err
	}
	if err := runnel.Require(p, runnel.CapSessionFork); err != nil {
		return Status{}, err
	}
	if turn := e.session.Status().Turn; turn != "" {
		return Status{}, inProgress(turn)
	}
	if _, err := g.projectDir(from.ProjectDir); err != nil { // the copy's agent is about to start there
		return Status{}, err
	}
	opt, err := g.options(ctx, from)
	if err != nil {
		return Status{}, err
	}
	rec, err := newRecord(p, from.ProjectDir, opt)
	if err != nil {
		return Status{}, err
	}
	rec.Title, rec.Options, rec.ModelID = from.Title, from.Options, from.ModelID
	return g.begin(ctx, beginning{
		provider: &forker{Provider: p}, opt: opt, rec: rec,
		fill: func(ctx context.Context) error { return g.copyLog(ctx, from.ID, rec.ID) },
	})
}

// forker is a provider whose first conversation begins as a copy. After that
// it resumes its own, as any other.
type forker struct {
	runnel.Provider
	forked atomic.Bool
}

// Prepare implements [runnel.Preparer], as far as the provider does.
func (f *forker) Prepare(ctx context.Context, in runnel.Input) (runnel.Input, error) {
	if p, ok := f.Provider.(runnel.Preparer); ok {
		return p.Prepare(ctx, in)
	}
	return in, nil
}

func (f *forker) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if f.forked.Load() {
		return f.Provider.Open(ctx, opt)
	}
	conn, err := f.Provider.(runnel.Forker).Fork(ctx, opt)
	f.forked.Store(err == nil)
	return conn, err
}

// Extra implements [runnel.Capable], as the provider does.
func (f *forker) Extra() []runnel.Capability {
	if p, ok := f.Provider.(runnel.Capable); ok {
		return p.Extra()
	}
	return nil
}

// A beginning is a session that is not there yet.
type beginning struct {
	provider runnel.Provider
	opt      runnel.Options
	rec      store.Session
	fill     func(context.Context) error // what its log begins with; nil: nothing
	agent    *prewarm.Agent              // nil: one is started
	settings runnel.Settings             // in which the prewarmed agent differs
}

// dropAgent stops the prewarmed agent of a session that is not created.
func (b *beginning) dropAgent() {
	if b.agent != nil {
		_ = b.agent.Conn.Close()
	}
}

// begin makes a session known before its agent starts, so that a crash leaves
// no agent without a record, and unknown again if it does not start.
func (g *Gateway) begin(ctx context.Context, b beginning) (Status, error) {
	b.rec.State = event.StateLoading
	if err := g.cfg.Catalogue.PutSession(ctx, b.rec); err != nil {
		b.dropAgent()
		return Status{}, storeError(err)
	}
	id := b.rec.ID
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		b.dropAgent()
		return Status{}, errClosing()
	}
	f := g.fly(id, func() (*entry, error) {
		e, err := g.startNew(g.ctx, b)
		if err != nil {
			g.erase(id)
			return nil, err
		}
		return e, nil
	})
	g.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return Status{}, ctx.Err() // the session stays, and is in the list
	}
	if f.err != nil {
		return Status{}, createError(f.err)
	}
	return g.Status(ctx, id)
}

func (g *Gateway) startNew(ctx context.Context, b beginning) (*entry, error) {
	if b.fill != nil {
		if err := b.fill(ctx); err != nil {
			return nil, err
		}
	}
	b.rec.State = event.StateOpen
	e := g.startPrewarmed(ctx, b)
	if e == nil {
		var err error
		if e, err = g.start(ctx, b.provider, b.opt, b.rec, 0, runnel.Config{}); err != nil {
			return nil, err
		}
	}
	if err := g.put(ctx, e); err != nil {
		_ = e.session.Close()
		return nil, err
	}
	g.feed.touch(b.rec.ID)
	return e, nil
}

// startPrewarmed opens the session with its prewarmed agent. It returns nil if
// there is none, or it is unusable; the caller starts a new agent.
func (g *Gateway) startPrewarmed(ctx context.Context, b beginning) *entry {
	if b.agent == nil {
		return nil
	}
	e, err := g.start(ctx, b.provider, b.agent.Options, b.rec, 0, runnel.Config{Conn: b.agent.Conn})
	if err == nil && !b.settings.IsZero() {
		if err = e.session.Set(ctx, b.settings); err != nil {
			_ = e.session.Close()
			g.retire(e) // the one that is started instead writes the record
		}
	}
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelInfo, "an agent that waited was not used", slog.String("session", b.rec.ID), slog.String("error", err.Error()))
		return nil
	}
	return e
}

// erase removes a session that came to nothing.
func (g *Gateway) erase(id string) {
	ctx := context.WithoutCancel(g.ctx)
	if err := g.cfg.Catalogue.DeleteSession(ctx, id); err != nil {
		g.log.LogAttrs(ctx, slog.LevelError, "unfinished session not removed", slog.String("session", id), slog.String("error", err.Error()))
	}
}

// createError keeps errors that say what to do, and gives those that do not the
// code of what was tried.
func createError(err error) error {
	switch runnel.CodeOf(err) {
	case runnel.Internal, runnel.ProcessCrash, runnel.ProtocolError:
		return runnel.Fail(runnel.SessionCreateFailed, "the agent did not start; see the server's log", err)
	}
	return err
}

func newRecord(p runnel.Provider, dir string, opt runnel.Options) (store.Session, error) {
	kept, err := json.Marshal(opt)
	if err != nil {
		return store.Session{}, runnel.Fail(runnel.InvalidRequest, "options: mcpServers must be a JSON object", err)
	}
	now := time.Now().UTC()
	return store.Session{
		ID: uuid.Must(uuid.NewV7()).String(), CLIType: p.Name(), ProjectID: ProjectID(dir), ProjectDir: dir,
		ModelID: opt.Model, PermissionMode: string(opt.PermissionMode), Options: kept,
		State: event.StateOpen, CreatedAt: now, LastActiveAt: now,
	}, nil
}

// completed adds to the options of a client what is the server's to say.
func (g *Gateway) completed(opt runnel.Options, dir string) (runnel.Options, error) {
	for _, d := range opt.AddDirs {
		if !filepath.IsAbs(d) {
			return opt, runnel.Fail(runnel.InvalidRequest, "addDirs: must be absolute paths")
		}
		if err := g.outside(canonical(d)); err != nil {
			return opt, err
		}
	}
	opt.Dir, opt.AllowBypass, opt.Filter, opt.Trusted = dir, g.cfg.AllowBypass, g.cfg.Filter, Trusts(g.cfg.TrustedDirs, dir)
	opt.Warn = func(code, message string) {
		g.log.Warn(message, slog.String("code", code), slog.String("dir", dir))
	}
	return opt, nil
}

// profile finds a profile by its name. This server has none.
func (g *Gateway) profile(persona string) error {
	if persona == "" {
		return nil
	}
	return runnel.Fail(runnel.PersonaNotFound, "persona: there is no such profile")
}

// options returns how to go on with a session: as it was begun, with the
// agent's own conversation.
func (g *Gateway) options(ctx context.Context, rec store.Session) (runnel.Options, error) {
	var opt runnel.Options
	if len(rec.Options) > 0 {
		if err := json.Unmarshal(rec.Options, &opt); err != nil {
			return opt, runnel.Fail(runnel.Internal, "the session's options cannot be read", err)
		}
	}
	opt.Resume = rec.AgentSessionID
	if opt.Resume == "" { // a crash may have come before the record was written
		for ev, err := range g.cfg.Log.Read(ctx, rec.ID, 0) {
			if err != nil {
				return opt, storeError(err)
			}
			if b, ok := ev.Body.(event.SessionUpdated); ok {
				set(&opt.Resume, b.AgentSessionID)
			}
		}
	}
	return g.completed(opt, rec.ProjectDir)
}

// copyLog gives a new session the events of another.
func (g *Gateway) copyLog(ctx context.Context, from, to string) error {
	return g.fillLog(ctx, to, func(yield func(event.Event, error) bool) {
		for ev, err := range g.cfg.Log.Read(ctx, from, 0) {
			if b, ok := ev.Body.(event.SessionUpdated); ok {
				b.AgentSessionID = "" // the copy will have its own
				ev.Body = b
			}
			if !yield(ev, err) {
				return
			}
		}
	})
}

// fillLog appends events to the log of a session that has none, in batches, and
// stamps them.
func (g *Gateway) fillLog(ctx context.Context, id string, events func(yield func(event.Event, error) bool)) error {
	const most = 256
	var head int64
	batch := make([]event.Event, 0, most)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := g.cfg.Log.Append(ctx, id, head, batch...)
		head += int64(len(batch))
		batch = make([]event.Event, 0, most)
		return err
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		ev.Session, ev.Seq = id, head+int64(len(batch))+1
		if batch = append(batch, ev); len(batch) == most {
			if err := flush(); err != nil {
				return storeError(err)
			}
		}
	}
	if err := flush(); err != nil {
		return storeError(err)
	}
	return nil
}
