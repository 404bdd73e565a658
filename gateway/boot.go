package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
)

// Values of Boot.Reason.
const (
	alreadyBooted       = "already_booted"
	forced              = "forced"
	missingAgentSession = "missing_agent_session"
	fingerprintChanged  = "fingerprint_changed"
)

// Boot is the result of [Gateway.Boot].
type Boot struct {
	Started bool   `json:"started" doc:"Whether this request started an agent. false: an agent was already running."`
	Resumed bool   `json:"resumed" doc:"Whether the agent continues its previous conversation."`
	Reason  string `json:"reason,omitempty" enum:"already_booted,forced,missing_agent_session,fingerprint_changed" doc:"Why the agent was not started, not resumed, or restarted."`
}

// Boot starts the agent of a session, so that the next prompt need not wait.
// The agent resumes its conversation if it can; otherwise it starts with a new
// one. A running agent is restarted only if no turn runs and it would now start
// with other options, for example another profile.
//
// If force is set, Boot always starts an agent with a new conversation. It then
// fails with TURN_IN_PROGRESS while a turn runs.
func (g *Gateway) Boot(ctx context.Context, ref string, force bool) (Status, Boot, error) {
	e, err := g.lock(ctx, ref) // no prompt starts the agent meanwhile
	if err != nil {
		return Status{}, Boot{}, err
	}
	defer g.unlock(e)
	st := e.session.Status()
	if st.Turn != "" && force {
		return Status{}, Boot{}, inProgress(st.ID, st.Turn)
	}
	if st.Turn == "" || st.Followed {
		if err := g.follows.free(ctx, e); err != nil {
			return Status{}, Boot{}, err
		}
		st = e.session.Status()
	}
	rec, _ := e.snapshot()
	boot, err := g.opener.plan(ctx, e, st, force)
	if err != nil || !boot.Started {
		return e.status(), boot, err
	}
	if err := g.opener.projects.recheckSession(rec); err != nil {
		return Status{}, Boot{}, err
	}
	err = g.restart(ctx, e, boot.Resumed, "The agent was restarted, as requested.")
	if err != nil && boot.Resumed && !failsWithoutResume(err) {
		boot.Resumed, boot.Reason = false, missingAgentSession
		err = g.restart(ctx, e, false, "The agent could not continue its conversation.")
	}
	if err != nil {
		return Status{}, Boot{}, err
	}
	now, err := g.Status(ctx, rec.ID)
	return now, boot, err
}

// plan returns how Boot has to start the agent of a session. st is the
// session's status.
func (o *opener) plan(ctx context.Context, e *entry, st runnel.Status, force bool) (Boot, error) {
	if force {
		return Boot{Started: true, Reason: forced}, nil
	}
	if st.Turn != "" {
		return Boot{Reason: alreadyBooted}, nil
	}
	rec, _ := e.snapshot()
	res, err := o.options(ctx, rec)
	if err != nil {
		return Boot{}, err
	}
	boot := Boot{Started: true, Resumed: res.Resume != ""}
	switch changed := e.differs(res.Options); {
	case changed:
		boot.Reason = fingerprintChanged
	case st.AgentAlive:
		return Boot{Reason: alreadyBooted}, nil
	case !boot.Resumed:
		boot.Reason = missingAgentSession
	}
	return boot, nil
}

// restart closes an open session that has no turn and opens it again with a
// running agent. If resume is false, the agent starts without its conversation,
// and a notice with the reason why is logged.
func (g *Gateway) restart(ctx context.Context, old *entry, resume bool, why string) error {
	t, err := g.sessions.replace(old, func() (*entry, error) {
		_ = old.session.Close()
		if err := g.records.write(g.ctx, old); err != nil {
			return nil, err
		}
		g.records.retire(old)
		rec, _ := old.snapshot()
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
			res.Resume, cfg.ForgottenReason = "", why
		}
		e, err := g.opener.start(WithCredential(g.ctx, old.credential), p, res, rec, old.queuedNow(), cfg)
		if err == nil {
			g.records.mark(e, true)
		}
		return e, err
	})
	if err != nil {
		return err
	}
	return t.wait(ctx)
}

// failsWithoutResume reports whether err, from a failed resume, would also
// occur when the agent starts with a new conversation.
func failsWithoutResume(err error) bool {
	switch runnel.CodeOf(err) {
	case runnel.AgentNotInstalled, runnel.AgentNotLoggedIn, runnel.MissingAPIKey, runnel.InvalidAPIKey,
		runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.StoreUnavailable, runnel.InvalidRequest, runnel.Overloaded, runnel.RateLimited:
		return true
	}
	return false
}
