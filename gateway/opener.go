package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// An opener opens sessions from their records and options.
type opener struct {
	cfg       *Config
	ctx       context.Context // for opening sessions; it outlives the request
	providers *detect.Index
	detector  *detect.Detector
	projects  projects
	feed      *feed
	records   *recordWriter
	queue     *promptQueue
	limits    *limiter
	policy    policy.Sources // decides approvals without a person
	rules     *rulebook
	counters  map[string]*runnel.Counters // by name of the provider
	tally     *tally
	captures  *captures
	unknowns  *unknowns
	egress    *egressRecords
	denials   *denialRecords
	pictures  *sessionPictures

	checkpoints *checkpoints
}

// NotFound returns the error for a session that does not exist. id is the id
// that the client sent.
func NotFound(id string) *runnel.Error {
	return &runnel.Error{
		Code: runnel.SessionNotFound, Message: "there is no such session", Details: map[string]string{"sessionId": text.Shorten(id, 200)},
	}
}

// record returns the record of a session. It fails with SESSION_NOT_FOUND if
// there is none.
func (o *opener) record(ctx context.Context, id string) (store.Session, error) {
	rec, err := o.cfg.Catalogue.Session(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return rec, NotFound(id)
	case err != nil:
		return rec, storeError(err)
	}
	return rec, nil
}

// open opens an existing session without starting its agent. The session counts
// towards the limits of credential, which is an id. open fails with
// SESSION_DEAD if the session was ended.
func (o *opener) open(id, credential string) (*entry, error) {
	return o.openWith(id, credential, runnel.Config{Dormant: true})
}

// reopen opens a session whose open turns belong to a process outside of
// Runnel.
func (o *opener) reopen(id string) (*entry, error) {
	return o.openWith(id, "", runnel.Config{Dormant: true, Follow: true})
}

func (o *opener) openWith(id, credential string, cfg runnel.Config) (*entry, error) {
	ctx := WithCredential(o.ctx, credential)
	rec, err := o.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if rec.State == event.StateDead {
		return nil, runnel.Fail(runnel.SessionDead, "the session has ended; load it to continue")
	}
	p := o.providers.Named(rec.CLIType)
	if p == nil {
		return nil, runnel.Fail(runnel.UnsupportedCLIType, "this server no longer has the agent "+rec.CLIType+"; add it to the configuration to continue the session")
	}
	res, err := o.options(ctx, rec)
	if err != nil { // for example a deleted profile. The next prompt returns this error, and the session can still be ended
		if res, err = o.ownOptions(ctx, rec); err != nil {
			return nil, err
		}
	}
	queued, err := queueOf(ctx, o.cfg.Catalogue, id)
	if err != nil {
		return nil, err
	}
	rec.QueueHeld = rec.QueueHeld && len(queued) > 0 // a crash may have come between the last prompt's removal and the record
	return o.start(ctx, p, res, rec, queued, cfg)
}

// start opens a session for the credential of ctx. The caller adds it to the
// open sessions. queued are its queued prompts. cfg contains the fields that
// differ between sessions; start sets the other fields. On an error
// start has closed cfg.Conn. If the agent rejected an option, the error names
// the source of the option.
func (o *opener) start(ctx context.Context, p runnel.Provider, res resolution, rec store.Session, queued []QueuedPrompt, cfg runnel.Config) (*entry, error) {
	e := &entry{credential: credentialOf(ctx), limits: o.limits, feed: o.feed, records: o.records, queue: o.queue, tally: o.tally, checkpoints: o.checkpoints, denials: o.denials, rec: rec, resolved: res.by, started: res.Options, sources: res.sources, queued: queued}
	st, err := o.cfg.Log.State(ctx, rec.ID)
	if err != nil {
		if cfg.Conn != nil {
			_ = cfg.Conn.Close()
		}
		return nil, storeError(err)
	}
	e.folded = st.Head
	for _, t := range st.Open {
		e.turns = append(e.turns, span{turn: t.Turn, after: t.After})
	}
	cfg.ID, cfg.Log, cfg.Recorded = rec.ID, o.cfg.Log, e.recorded
	if cfg.Changed == nil {
		cfg.Changed = e.changed
	}
	cfg.Exceeded, cfg.Asked, cfg.StartFailed = e.exceeded, e.asked, e.startFailed
	cfg.AgentStarted = func(opt runnel.Options) {
		e.agentStarted(opt)
		o.auditBroker(e, p, opt)
	}
	e.gov = newGovernor(o.cfg.Logger, rec.ID, p)
	e.gov.begin(res.rules)
	o.recallTurn(e, rec)
	k := keptOf(rec.Options)
	e.archived = k.Archived
	if k.Capture {
		o.captures.resume(rec.ID, p.Name())
	}
	var opened atomic.Bool // before, the session may drop notices; see runnel.Config.Annotate
	cfg.Annotate = func(ev event.Event) []event.Notice {
		notices := e.gov.annotate(ev)
		if opened.Load() {
			notices = append(notices, e.captureNotices(o.captures)...)
		}
		return notices
	}
	cfg.Judge, cfg.Decided = e.gov.sources(o.policy).Judge(e.call(event.Approval{})), o.decided(rec.ID)
	cfg.Reserve, cfg.TurnBudget, cfg.Pictures = e.reserve, e.gov.budget, o.pictures.ofPrompt(rec.ID)
	cfg.ApprovalTimeout, cfg.StallTimeout = o.cfg.ApprovalTimeout, max(o.cfg.StallTimeout, 0)
	e.session, err = runnel.Open(ctx, p, o.equipped(res.Options, p.Name(), rec.ID), cfg)
	if err != nil {
		return nil, res.sources.Blame(err)
	}
	opened.Store(true)
	if !cfg.Dormant { // the caller of start writes the record
		e.boot(res.Options)
		o.auditBroker(e, p, res.Options)
	}
	return e, nil
}

// decided returns the runnel.Config.Decided of a session. It counts the use of
// a stored rule, and records the decision in the tally and the audit log.
func (o *opener) decided(session string) func(runnel.Decided) {
	return func(d runnel.Decided) {
		if d.Maker.Rule != 0 && d.Resolved.By == event.ByPolicy {
			o.rules.used(d.Maker.Rule, d.At)
		}
		o.tally.approval(d)
		o.cfg.Audit(audit.Decided(session, d))
	}
}

// options returns the options with which the session's next agent starts:
// freshly resolved, and with the id of the agent's conversation to resume.
func (o *opener) options(ctx context.Context, rec store.Session) (resolution, error) {
	res, err := o.resolveRecord(rec)
	if err != nil {
		return res, err
	}
	res.Resume, err = o.conversation(ctx, rec)
	return res, err
}

// ownOptions is like options but uses only the options that the session itself
// has. It is for an agent that already runs, and for a session whose options
// cannot be resolved.
func (o *opener) ownOptions(ctx context.Context, rec store.Session) (resolution, error) {
	opt, err := decodeOptions(o.cfg.Sealer, rec.Options)
	if err != nil {
		return resolution{}, err
	}
	if opt, err = o.complete(opt, rec.ProjectDir); err != nil {
		return resolution{}, err
	}
	opt.Resume, err = o.conversation(ctx, rec)
	k := keptOf(rec.Options)
	opt = o.allowed(k.inWorktree(opt), sessionOf(rec))
	return resolution{Options: opt, rules: constraints{lost: k.Persona != "", governed: k.Delegation == Governed}}, err
}

// conversation returns the id that the agent gave to the conversation of a
// session, or "".
func (o *opener) conversation(ctx context.Context, rec store.Session) (id string, err error) {
	if rec.AgentSessionID != "" {
		return rec.AgentSessionID, nil
	}
	for ev, err := range o.cfg.Log.Read(ctx, rec.ID, 0) { // a crash may have come before the record with the id was written
		if err != nil {
			return "", storeError(err)
		}
		switch b := ev.Body.(type) {
		case event.SessionUpdated:
			setIf(&id, b.AgentSessionID)
		case event.Notice:
			if b.Code == runnel.ConversationForgotten {
				id = ""
			}
		}
	}
	return id, nil
}

// complete adds the server's own options to those of a client. It returns an
// error if opt.AddDirs contains a directory that conflicts with the server's
// data directory, or for a sandbox a path with a link. An agent in the sandbox
// of a directory around such a link can lead it to another project.
func (o *opener) complete(opt runnel.Options, dir string) (runnel.Options, error) {
	for i, d := range opt.AddDirs {
		if opt.Sandbox.IsOn() && !InPlace(filepath.Clean(d)) {
			return opt, runnel.Fail(runnel.WorkingRootConflict, fmt.Sprintf("addDirs.%d: the path leads through a link, which an agent in another sandbox could replace; name the directory to which it leads", i))
		}
		if err := o.projects.checkDataDir(canonical(d)); err != nil {
			return opt, err
		}
	}
	opt.InPlace = true
	opt.Dir, opt.AllowBypass, opt.Filter, opt.Trusted = dir, o.cfg.AllowBypass, o.cfg.Filter, o.projects.trusts(dir)
	opt.UntrustedDirs = Untrusted(o.cfg.TrustedDirs, opt.AddDirs)
	opt.Protected, opt.Withheld, opt.RefusedPorts = o.protected(), o.withheld(), o.cfg.RefusedPorts
	opt.Warn = func(code, message string) {
		o.cfg.Logger.Warn(message, slog.String("code", code), slog.String("dir", dir))
	}
	return opt, nil
}

// takeover returns the runnel.Takeover of a session, with which a later server
// process finds its agent. It takes the agent over, or ends it if agents do not
// wait for a server.
func (o *opener) takeover(id string) runnel.Takeover {
	if o.cfg.DataDir == "" {
		return runnel.Takeover{}
	}
	return runnel.Takeover{Dir: o.takeoverDir(), Name: id, Window: max(0, o.cfg.ReattachWindow)}
}

// takeoverDir returns the directory for the takeover data of supervisors.
func (o *opener) takeoverDir() string { return filepath.Join(o.cfg.DataDir, "run") }

// erase removes the record of a session whose creation failed. It logs its own
// errors.
func (o *opener) erase(id string) {
	ctx := context.WithoutCancel(o.ctx)
	if err := o.cfg.Catalogue.DeleteSession(ctx, id); err != nil {
		o.cfg.Logger.LogAttrs(ctx, slog.LevelError, "unfinished session not removed", slog.String("session", id), slog.String("error", err.Error()))
	}
	o.pictures.remove(id)
}
