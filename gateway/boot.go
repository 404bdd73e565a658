package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
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
		return Status{}, Boot{}, inProgress(st.ID, st.Turn)
	case st.AgentAlive && !force, st.Turn != "":
		return e.status(), Boot{Reason: "already_booted"}, nil
	}
	boot := Boot{Started: true, Resumed: true}
	rec, _ := e.snapshot()
	switch {
	case force:
		boot.Resumed, boot.Reason = false, "forced"
	case rec.AgentSessionID == "":
		boot.Resumed, boot.Reason = false, "missing_agent_session"
	}
	if _, err := g.opener.projects.check(rec.ProjectDir); err != nil {
		return Status{}, Boot{}, err
	}
	err = g.restart(ctx, e, boot.Resumed, "The agent was started afresh, as asked.")
	if err != nil && boot.Resumed && !hopeless(err) {
		boot.Resumed, boot.Reason = false, "missing_agent_session"
		err = g.restart(ctx, e, false, "The agent could not go on with its conversation.")
	}
	if err != nil {
		return Status{}, Boot{}, err
	}
	now, err := g.Status(ctx, rec.ID)
	return now, boot, err
}

// restart replaces an open session without a turn by one whose agent runs.
// Without resume the agent forgets its conversation; why tells readers.
func (g *Gateway) restart(ctx context.Context, old *entry, resume bool, why string) error {
	t, err := g.sessions.replace(old, func() (*entry, error) {
		_ = old.session.Close()
		if err := g.records.write(g.ctx, old); err != nil {
			return nil, err
		}
		g.records.retire(old)
		rec, waiting := old.snapshot()
		p, err := g.opener.providers.Choose(rec.CLIType)
		if err != nil {
			return nil, err
		}
		res, err := g.opener.options(g.ctx, rec)
		if err != nil {
			return nil, err
		}
		var cfg runnel.Config
		if !resume && res.Resume != "" {
			res.Resume, cfg.Forget = "", why
		}
		return g.opener.start(WithCredential(g.ctx, old.credential), p, res, rec, waiting, cfg)
	})
	if err != nil {
		return err
	}
	return t.wait(ctx)
}

// hopeless reports whether an agent that would not resume will not start
// afresh either.
func hopeless(err error) bool {
	switch runnel.CodeOf(err) {
	case runnel.AgentNotInstalled, runnel.AgentNotLoggedIn, runnel.MissingAPIKey, runnel.InvalidAPIKey,
		runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.StoreUnavailable, runnel.InvalidRequest, runnel.Overloaded, runnel.RateLimited:
		return true
	}
	return false
}
