package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/store"
)

// Create creates a session and starts its agent in a directory. persona names
// its profile; if it is empty, the session gets the default profile, if any.
// After an error no session is left.
func (g *Gateway) Create(ctx context.Context, cliType, dir string, opt runnel.Options, persona string) (Status, error) {
	return g.CreateWith(ctx, cliType, dir, opt, Choice{Persona: persona})
}

// CreateWith is like [Gateway.Create] with everything that a client can choose.
func (g *Gateway) CreateWith(ctx context.Context, cliType, dir string, opt runnel.Options, c Choice) (Status, error) {
	if st, err := RequestsOf(g).made(ctx); err != nil || st.SessionID != "" {
		return st, err
	}
	p, err := g.opener.providers.Choose(cliType)
	if err != nil {
		return Status{}, err
	}
	if dir, err = g.opener.projects.check(dir); err != nil {
		return Status{}, err
	}
	if own := onlyProject(ctx); own != "" && dir != own {
		return Status{}, errMoved
	}
	opt.AllowBypass = g.cfg.AllowBypass
	if opt, err = runnel.CheckOptions(p, opt, g.detector.Last(p.Name())); err != nil {
		return Status{}, err
	}
	if err := runnel.CheckKey(p, opt); err != nil {
		return Status{}, err
	}
	k, err := g.opener.chosen(dir, c)
	if err != nil {
		return Status{}, err
	}
	k, id, err := g.forNew(ctx, dir, opt, c, k)
	if err != nil {
		return Status{}, err
	}
	res, err := g.opener.resolve(p, dir, "", opt, k)
	if err != nil {
		return Status{}, err
	}
	rec, err := newRecord(g.cfg.Sealer, p, dir, opt, res)
	rec.ID = id
	if err == nil {
		rec.Options, err = k.in(rec.Options)
	}
	if err != nil {
		return Status{}, err
	}
	if err := g.opener.limits.mayStart(credentialOf(ctx)); err != nil { // checked before a prewarmed agent is taken
		return Status{}, err
	}
	n := newSession{provider: p, res: res, rec: rec}
	if g.withWorktree(ctx, &n); c.Worktree { // no prewarmed agent can wait in its directory
		if err := g.creator.create(ctx, n); err != nil {
			return Status{}, err
		}
		return g.Status(ctx, id)
	}
	key := prewarm.Key{Provider: p, Options: res.Options}
	if n.agent, n.settings = g.pool.Take(key); n.agent != nil {
		n.rec.ID = n.agent.ID
	}
	if err := g.creator.create(ctx, n); err != nil {
		return Status{}, err
	}
	st, err := g.Status(ctx, n.rec.ID)
	if err == nil {
		g.pool.Created(key)
	}
	return st, err
}

// A creator creates sessions.
type creator struct {
	opener   *opener
	sessions *sessions
}

// A newSession is the input of [creator.create].
type newSession struct {
	provider runnel.Provider
	res      resolution
	rec      store.Session
	fill     func(context.Context) error // fills its log or makes its worktree before its agent starts. Default: the log is empty
	undo     func(context.Context)       // undoes fill if the agent does not start. Default: nothing is left of it
	agent    *prewarm.Agent              // prewarmed agent to use; nil: start a new one
	settings runnel.Settings             // settings to change in the prewarmed agent
}

// create writes the record before the agent starts, so that a crash leaves no
// agent without a record. It does so in the transition that opens the session,
// because clients can use a session once its record is stored, and would
// otherwise open it a second time. If the agent does not start, create removes the record.
func (c *creator) create(ctx context.Context, n newSession) error {
	n.rec.State = event.StateLoading
	if err := bindingOf(ctx).Bind(ctx, n.rec.ID, ""); err != nil {
		n.dropAgent()
		return err
	}
	t, err := c.sessions.create(ctx, n.rec.ID, func() (*entry, error) {
		if err := c.opener.cfg.Catalogue.PutSession(c.opener.ctx, n.rec); err != nil {
			n.dropAgent()
			return nil, storeError(err)
		}
		e, err := c.start(WithCredential(c.opener.ctx, credentialOf(ctx)), n)
		if err != nil {
			if n.undo != nil {
				n.undo(c.opener.ctx)
			}
			c.opener.erase(n.rec.ID)
			return nil, err
		}
		return e, nil
	})
	if err != nil {
		n.dropAgent()
		return err
	}
	if err := t.wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // creation continues, and the session appears in lists
		}
		return createError(err)
	}
	return nil
}

// dropAgent stops the prewarmed agent of a session that was not created.
func (n *newSession) dropAgent() {
	if n.agent != nil {
		_ = n.agent.Conn.Close()
	}
}

func (c *creator) start(ctx context.Context, n newSession) (*entry, error) {
	if n.fill != nil {
		if err := n.fill(ctx); err != nil {
			return nil, err
		}
	}
	n.rec.State = event.StateOpen
	e := c.startPrewarmed(ctx, n)
	if e == nil {
		var err error
		if e, err = c.opener.start(ctx, n.provider, n.res, n.rec, nil, runnel.Config{}); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	e.unwritten = true // so that write stores a report, and Status need not read the log
	e.mu.Unlock()
	if err := c.opener.records.write(ctx, e); err != nil {
		_ = e.session.Close()
		return nil, err
	}
	c.opener.feed.touch(n.rec.ID)
	return e, nil
}

// startPrewarmed opens the session with its prewarmed agent. It returns nil if
// there is no prewarmed agent or it is unusable; the caller then starts a new
// agent.
func (c *creator) startPrewarmed(ctx context.Context, n newSession) *entry {
	if n.agent == nil {
		return nil
	}
	res := n.res
	res.Options = n.agent.Options
	res.Budget, res.TurnBudget = n.res.Budget, n.res.TurnBudget
	e, err := c.opener.start(ctx, n.provider, res, n.rec, nil, runnel.Config{Conn: n.agent.Conn})
	if err == nil && !n.settings.IsZero() {
		if err = e.session.Set(ctx, n.settings); err != nil {
			_ = e.session.Close()
			c.opener.records.retire(e) // the entry with the new agent writes the record
		} else {
			e.change(func() { e.rec.Options, e.resolved = n.rec.Options, n.res.by }) // Set recorded all settings as the session's own, but some come from other sources
		}
	}
	if err != nil {
		c.opener.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "a prewarmed agent was not used", slog.String("session", n.rec.ID), slog.String("error", err.Error()))
		return nil
	}
	return e
}

// createError replaces internal errors and crashes of the agent by
// SESSION_CREATE_FAILED. It keeps other errors, which tell the client what to
// do.
func createError(err error) error {
	switch runnel.CodeOf(err) {
	case runnel.Internal, runnel.ProcessCrash, runnel.ProtocolError:
		return runnel.Fail(runnel.SessionCreateFailed, "the agent did not start; see the server's log", err)
	}
	return err
}

// newRecord returns the record of a new session. given are the session's own
// options; res adds those from other sources, such as profiles and the
// configuration.
func newRecord(s Sealer, p runnel.Provider, dir string, given runnel.Options, res resolution) (store.Session, error) {
	kept, err := encodeOptions(s, given)
	if err != nil {
		return store.Session{}, err
	}
	now := time.Now().UTC()
	return store.Session{
		ID: uuid.Must(uuid.NewV7()).String(), CLIType: p.Name(), ProjectID: ProjectID(dir), ProjectDir: dir,
		ModelID: res.Model, PermissionMode: string(res.PermissionMode), Options: kept,
		State: event.StateOpen, CreatedAt: now, LastActiveAt: now,
	}, nil
}
