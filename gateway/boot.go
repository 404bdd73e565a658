package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Boot says how an agent was started ahead of the next prompt.
type Boot struct {
	Started bool   `json:"started"`
	Resumed bool   `json:"resumed" doc:"it goes on with its own conversation"`
	Reason  string `json:"reason,omitempty" enum:"already_booted,forced,missing_agent_session" doc:"why it was not started, or not resumed"`
}

// Boot starts the agent of a session, or resumes it, so that the next prompt
// need not wait. An agent that cannot resume is started once more, afresh.
func (g *Gateway) Boot(ctx context.Context, ref string, force bool) (Status, Boot, error) {
	e, err := g.lock(ctx, ref) // no prompt starts it meanwhile
	if err != nil {
		return Status{}, Boot{}, err
	}
	defer g.unlock(e)
	st := e.session.Status()
	switch {
	case st.Turn != "" && force:
		return Status{}, Boot{}, inProgress(st.Turn)
	case st.AgentAlive && !force, st.Turn != "":
		return g.status(e), Boot{Reason: "already_booted"}, nil
	}
	boot := Boot{Started: true, Resumed: true}
	rec, _ := e.snapshot()
	switch {
	case force:
		boot.Resumed, boot.Reason = false, "forced"
	case rec.AgentSessionID == "":
		boot.Resumed, boot.Reason = false, "missing_agent_session"
	}
	if _, err := g.projectDir(rec.ProjectDir); err != nil {
		return Status{}, Boot{}, err
	}
	err = g.restart(ctx, e, boot.Resumed)
	if err != nil && boot.Resumed && !hopeless(err) {
		boot.Resumed, boot.Reason = false, "missing_agent_session"
		err = g.restart(ctx, e, false)
	}
	if err != nil {
		return Status{}, Boot{}, err
	}
	now, err := g.Status(ctx, rec.ID)
	return now, boot, err
}

// restart replaces an open session without a turn by one whose agent runs.
func (g *Gateway) restart(ctx context.Context, old *entry, resume bool) error {
	id := old.session.ID()
	g.mu.Lock()
	if g.closing || g.flights[id] != nil {
		g.mu.Unlock()
		return errClosing()
	}
	delete(g.live, id)
	f := g.fly(id, func() (*entry, error) {
		_ = old.session.Close()
		err := g.put(g.ctx, old)
		if err != nil {
			return nil, err
		}
		g.retire(old)
		rec, waiting := old.snapshot()
		p, err := g.providers.Choose(rec.CLIType)
		if err != nil {
			return nil, err
		}
		opt, err := g.options(g.ctx, rec)
		if err != nil {
			return nil, err
		}
		if !resume {
			opt.Resume = ""
		}
		return g.start(g.ctx, p, opt, rec, waiting, runnel.Config{})
	})
	g.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockOpened is lock for a session that is only wanted if it is open.
func (g *Gateway) lockOpened(ctx context.Context, id string) (*entry, error) {
	for {
		e, err := g.opened(ctx, id)
		if e == nil || err != nil {
			return nil, err
		}
		e.sending.Lock()
		if g.peek(id) == e {
			return e, nil
		}
		g.unlock(e) // it was ended or opened anew while we waited
	}
}

// hopeless reports whether an agent that would not resume will not start
// afresh either.
func hopeless(err error) bool {
	switch runnel.CodeOf(err) {
	case runnel.AgentNotInstalled, runnel.AgentNotLoggedIn, runnel.MissingAPIKey, runnel.InvalidAPIKey,
		runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.StoreUnavailable, runnel.InvalidRequest:
		return true
	}
	return false
}

// Delete ends a session and removes it with its events. It fails while a turn
// runs.
func (g *Gateway) Delete(ctx context.Context, ref string) error {
	id, err := g.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	if _, err := g.record(ctx, id); err != nil {
		return err
	}
	e, err := g.lockOpened(ctx, id)
	if err != nil {
		return err
	}
	if e != nil {
		defer g.unlock(e)
		if turn := e.session.Status().Turn; turn != "" {
			return inProgress(turn)
		}
		e.mu.Lock()
		e.rec.State = event.StateDead
		e.mu.Unlock()
		_ = e.session.Close()
		g.mu.Lock()
		delete(g.live, id)
		g.mu.Unlock()
		g.retire(e)
	}
	if err := g.cfg.Catalogue.DeleteSession(context.WithoutCancel(ctx), id); err != nil {
		return storeError(err)
	}
	g.feed.touch(id)
	return nil
}
