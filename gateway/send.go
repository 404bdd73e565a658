package gateway

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/profile"
)

// A Prompt is what a client sends to a session.
type Prompt struct {
	TurnID      string // chosen by the client. Default: a new id
	Text        string
	Attachments []attach.Ref
	Options     runnel.Options // for this turn only. Default: the session's options
	Persona     string         // name of a profile for this turn. Default: the session's

	Governance *profile.Governance // for this turn; it can only tighten the session's. Default: the session's
	Unattended bool                // see Choice.Unattended
	Queue      bool                // queue the prompt if a turn runs, instead of failing

	// AwaitLogin makes Send wait for an agent that has to start and whose
	// provider checks the login at the start. Send then fails with
	// AGENT_NOT_LOGGED_IN before the turn starts.
	AwaitLogin bool
}

// Sent is the result of [Gateway.Send].
type Sent struct {
	SessionID string
	TurnID    string
	Queued    bool
	After     int64            // position in the log at or before the turn's first event
	Warning   string           // about attachments that were rejected
	Resolved  profile.Resolved // options of the turn; nil for a queued prompt, because they are resolved when its turn starts
}

// Send starts a turn or queues the prompt. It returns once that is durable. It
// waits for the agent only if Prompt.AwaitLogin is set.
//
// The prompt is checked while the session's turn lock is held, in the order
// that the API documents. If an earlier run of the same request has already
// started the turn, Send returns that turn.
func (g *Gateway) Send(ctx context.Context, ref string, p Prompt) (Sent, error) {
	g.pool.Use()
	for {
		sent, asleep, err := g.attempt(ctx, ref, p)
		if asleep == nil {
			return sent, err
		}
		err = awaitLogin(ctx, asleep.session)
		g.sessions.release(asleep)
		if err != nil {
			return Sent{}, err
		}
		p.AwaitLogin = false
	}
}

// attempt is like [Gateway.Send] but does not wait for an agent. If the agent
// has to start and check its login first, attempt returns the session as
// asleep; everything else about the prompt has then been checked. The caller
// must release asleep.
func (g *Gateway) attempt(ctx context.Context, ref string, p Prompt) (sent Sent, asleep *entry, err error) {
	e, err := g.lock(ctx, ref)
	if err != nil {
		return Sent{}, nil, err
	}
	defer func() {
		e.sending.Unlock()
		if asleep == nil {
			g.sessions.release(e)
		}
	}()
	if b := bindingOf(ctx); b != nil {
		p.TurnID = cmp.Or(p.TurnID, b.Turn)
	}
	if p.TurnID != "" {
		sent, err = RequestsOf(g).begun(ctx, e.session.ID(), p.TurnID)
	}
	if err == nil && sent.TurnID == "" {
		sent, err = g.begin(ctx, e, p)
	}
	if errors.Is(err, errAsleep) {
		return Sent{}, e, nil
	}
	return sent, nil, err
}

// errAsleep means that the session's agent must start and check its login
// before the turn starts.
var errAsleep = errors.New("gateway: no agent runs")

// loginTimeout limits how long a prompt waits for an agent to check its login.
const loginTimeout = 10 * time.Second

// awaitLogin starts the session's agent. It returns an error only if the agent
// is not logged in or the client has left. It ignores other errors, because the
// turn starts the agent again and then fails with the error. The caller must
// not hold the turn lock, so that other clients can end the session meanwhile.
func awaitLogin(client context.Context, s *runnel.Session) error {
	ctx, stop := context.WithTimeout(client, loginTimeout)
	defer stop()
	err := s.Start(ctx)
	if client.Err() != nil || runnel.CodeOf(err) == runnel.AgentNotLoggedIn {
		return err
	}
	return nil
}

// begin is [Gateway.Send] for a prompt whose turn has not started; e.sending is
// held.
func (g *Gateway) begin(ctx context.Context, e *entry, p Prompt) (Sent, error) {
	if err := e.session.CheckKey(); err != nil {
		return Sent{}, err
	}
	g.opener.stopOutdated(ctx, e)
	st := e.session.Status()
	rec, waiting := e.snapshot()
	busy := st.Turn != "" || waiting > 0 && !rec.QueueHeld
	if st.Turn == "" || st.Followed {
		if err := g.follows.free(ctx, e); err != nil {
			return Sent{}, err
		}
		if st.Followed {
			st = e.session.Status()
			busy = st.Turn != "" || waiting > 0 && !rec.QueueHeld
		}
	}
	if st.Turn == "" {
		g.queue.startIfWaiting(e) // an error may have stopped the queue
	}
	if busy && !p.Queue {
		return Sent{}, inProgress(rec.ID, st.Turn)
	}
	if busy && waiting >= maxQueue {
		return Sent{}, runnel.Fail(runnel.RateLimited, "too many prompts are queued in this session; cancel its turn, or wait until some have run")
	}
	if err := g.opener.renew(ctx, e); err != nil {
		return Sent{}, err
	}
	set, err := g.opener.turnSettings(rec.CLIType, st, e.differing(p.Options))
	if err != nil {
		return Sent{}, err
	}
	if err := e.session.CheckSettings(ctx, set); err != nil {
		return Sent{}, err
	}
	if !InPlace(workDir(rec)) { // attachments are read from that directory, and a running agent finds files by its path
		return Sent{}, errMoved
	}
	in, err := g.uploads.check(ctx, p, e.session, workDir(rec))
	if err != nil {
		return Sent{}, err
	}
	choice, err := g.opener.chosenFor(rec, p)
	if err == nil && choice.model != "" && set.Model == "" {
		set.Model = choice.model
		if set, err = g.opener.checkSettings(rec.CLIType, st, set); err == nil {
			err = e.session.CheckSettings(ctx, set)
		}
		err = profile.Of(*choice.profile).Blame(err)
	}
	if err != nil {
		return Sent{}, err
	}
	choice.Budget = set.TurnBudget
	if err := e.room(ctx, g.cfg.Log); err != nil {
		return Sent{}, err
	}
	if !st.AgentAlive { // the turn will start it in that directory
		if err := g.opener.limits.mayStart(e.credential); err != nil {
			return Sent{}, err
		}
		if err := g.opener.projects.recheckSession(rec); err != nil {
			return Sent{}, err
		}
		if p.AwaitLogin && !busy && e.session.ChecksLogin() {
			return Sent{}, errAsleep
		}
	}
	if err := bindingOf(ctx).Bind(ctx, rec.ID, in.Turn); err != nil { // after this only the store can fail
		return Sent{}, err
	}
	if ids := g.uploads.used(p.Attachments); len(ids) > 0 {
		e.change(func() { e.edit(func(k *keptCare) { k.Uploads = g.uploads.joined(k.Uploads, ids) }) })
	}
	sent := Sent{SessionID: rec.ID, TurnID: in.Turn, After: st.Head, Warning: in.Warning()}
	if !busy {
		sent.Resolved = shownResolved(e.resolvedNow(), Describe(rec), set)
		err = e.send(ctx, in, set, choice.turnRules)
		if !p.Queue || runnel.CodeOf(err) != runnel.TurnInProgress { // TURN_IN_PROGRESS means that the agent started a turn by itself
			return sent, err
		}
	}
	sent.Queued, sent.Resolved = true, nil
	return sent, g.queue.add(ctx, e, queuedPrompt{in, set, choice.turnRules})
}

// differing returns the options of a prompt without those that the agent takes
// only at its start and that equal the options with which it was started.
func (e *entry) differing(opt runnel.Options) runnel.Options {
	_, others := opt.Settings()
	e.mu.Lock()
	defer e.mu.Unlock()
	return profile.OmitEqual(opt, others, e.started)
}

// turnSettings converts the options of a prompt to settings for its turn, and
// checks them. It changes nothing.
func (o *opener) turnSettings(cliType string, st runnel.Status, opt runnel.Options) (runnel.Settings, error) {
	p, err := o.providers.Choose(cliType)
	if err != nil {
		return runnel.Settings{}, err
	}
	set, err := runnel.TurnSettings(p, opt)
	if err != nil {
		return set, err
	}
	return o.checkSettings(cliType, st, set)
}

// checkSettings checks settings and changes nothing. It checks them against the
// settings that the session's agent offers, or else against the last probe of
// the agent.
func (o *opener) checkSettings(cliType string, st runnel.Status, set runnel.Settings) (runnel.Settings, error) {
	p, err := o.providers.Choose(cliType)
	if err != nil {
		return set, err
	}
	known := o.detector.Last(p.Name())
	if st.Config != nil {
		known = &runnel.Installation{Config: st.Config}
	}
	return runnel.CheckSettings(p, runnel.Options{AllowBypass: o.cfg.AllowBypass}, set, known)
}

// Cancel asks the agent to end the running turn, and holds the queue: queued
// prompts wait until [Queues.Hold] continues it. If no turn runs, Cancel only
// holds the queue. If the held queue cannot be stored, Cancel returns the error,
// but has cancelled the turn and holds the queue until the server ends.
func (g *Gateway) Cancel(ctx context.Context, ref string) error {
	return QueuesOf(g).cancel(ctx, ref, func(e *entry) error { return g.queue.stop(ctx, e) })
}

// Set changes options of a session and of its running agent. An option that the
// agent takes only at its start can change only while no agent runs.
func (g *Gateway) Set(ctx context.Context, ref string, opt runnel.Options) (Status, error) {
	e, err := g.lock(ctx, ref)
	if err != nil {
		return Status{}, err
	}
	defer g.unlock(e)
	rec, _ := e.snapshot()
	set, others := opt.Settings()
	if len(others) > 0 {
		err = g.setOthers(ctx, e, opt, others)
	} else {
		set, err = g.opener.checkSettings(rec.CLIType, e.session.Status(), set)
	}
	if err == nil && !set.IsZero() {
		err = e.session.Set(ctx, set)
	}
	if err == nil { // the answer must not report options that the record lacks
		err = g.records.write(context.WithoutCancel(ctx), e)
	}
	if err != nil {
		return Status{}, err
	}
	return e.status(), nil
}

// setOthers changes options of a session while no agent runs. others names
// those that the agent takes only at its start. setOthers fails with
// UNSUPPORTED_CAPABILITY if an agent runs; e.sending is held.
func (g *Gateway) setOthers(ctx context.Context, e *entry, opt runnel.Options, others []string) error {
	rec, _ := e.snapshot()
	p, err := g.opener.providers.Choose(rec.CLIType)
	if err != nil {
		return err
	}
	opt.AllowBypass = g.cfg.AllowBypass
	if opt, err = runnel.CheckOptions(p, opt, g.detector.Last(p.Name())); err != nil {
		return err
	}
	if st := e.session.Status(); st.AgentAlive || st.Turn != "" {
		return &runnel.Error{
			Code:    runnel.UnsupportedCapability,
			Message: strings.Join(others, ", ") + ": the agent accepts this only when it starts, and it is running; end the session, load it again, and change it then",
			Details: map[string]any{"options": others},
		}
	}
	changes, err := encodeOptions(g.cfg.Sealer, opt)
	if err != nil {
		return err
	}
	if rec.Options, err = withOptions(rec.Options, changes); err != nil {
		return runnel.Fail(runnel.Internal, "the session's options cannot be read", err)
	}
	res, err := g.opener.resolveRecord(rec)
	if err != nil {
		return err
	}
	if err := g.opener.renewWith(ctx, e, res); err != nil {
		return err
	}
	e.change(func() { e.rec.Options = rec.Options })
	return nil
}
