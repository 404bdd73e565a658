package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// A rule of kind sandbox_read or sandbox_write lets sandboxes reach a path
// outside of the project. A sandbox cannot change while its agent runs, so such
// a rule takes effect when the agent starts: a change of the rules stops the
// agents of idle sessions, and the next turn starts and resumes them. An agent
// whose turn runs is stopped before its next turn.

// SandboxChange says for which open sessions a change of the rules about
// sandboxes has taken effect.
type SandboxChange struct {
	Stopped  []string `json:"stopped" doc:"Ids of the sessions whose agent was stopped. The next prompt starts it again, and it resumes its conversation."`
	NextTurn []string `json:"nextTurn" doc:"Ids of the sessions in which a turn runs. The change takes effect with their next turn."`
}

func sessionOf(rec store.Session) rules.Session {
	return rules.Session{ID: rec.ID, CLIType: rec.CLIType, Project: rec.ProjectDir}
}

// allowed returns opt with the paths that the rules let the sandbox of a session
// reach.
func (o *opener) allowed(opt runnel.Options, of rules.Session) runnel.Options {
	opt.Allowed = nil
	if !opt.Sandbox.IsOn() {
		return opt
	}
	for _, r := range o.rules.set.Load().Paths(of) {
		p := runnel.AllowedPath{Path: r.Pattern, Write: r.Kind == store.RuleSandboxWrite}
		if i := slices.IndexFunc(opt.Allowed, func(have runnel.AllowedPath) bool { return have.Path == p.Path }); i >= 0 {
			opt.Allowed[i].Write = opt.Allowed[i].Write || p.Write
			continue
		}
		opt.Allowed = append(opt.Allowed, p)
	}
	slices.SortFunc(opt.Allowed, func(a, b runnel.AllowedPath) int { return cmp.Compare(a.Path, b.Path) })
	return opt
}

// digestOf returns a hash of the paths that a sandbox has in addition; "" for
// none.
func digestOf(paths []runnel.AllowedPath) string {
	if len(paths) == 0 {
		return ""
	}
	data, err := json.Marshal(paths)
	if err != nil {
		return "" // unreachable: the paths are plain values
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isOutdated reports whether an agent runs whose sandbox has other paths than
// the rules say now.
func (o *opener) isOutdated(e *entry) bool {
	if !e.session.Status().AgentAlive {
		return false
	}
	e.mu.Lock()
	opt, rec := e.started, e.rec
	e.mu.Unlock()
	return opt.Sandbox.IsOn() && digestOf(o.allowed(opt, sessionOf(rec)).Allowed) != keptOf(rec.Options).Allowed
}

// stopOutdated stops the agent of a session if its sandbox is outdated and no
// turn runs. The next turn starts it again. It reports whether the agent was
// stopped, and whether it has to be stopped later; e.sending is held.
func (o *opener) stopOutdated(ctx context.Context, e *entry) (stopped, later bool) {
	if !o.isOutdated(e) {
		return false, false
	}
	if err := e.session.Release(ctx); err != nil { // a turn runs
		return false, true
	}
	return true, false
}

// applySandbox applies a change of a rule about sandboxes to the open sessions
// to which it applies. It stops their agents at the same time, because an agent
// may take long to exit.
func (as Approvals) applySandbox(ctx context.Context, r store.Rule) *SandboxChange {
	ctx = context.WithoutCancel(ctx) // the rule is stored or removed
	set := rules.NewSet([]store.Rule{r})
	var ids []string
	for _, open := range as.g.sessions.all() {
		if rec, _ := open.snapshot(); len(set.Paths(sessionOf(rec))) > 0 {
			ids = append(ids, rec.ID)
		}
	}
	stopped, later := make([]bool, len(ids)), make([]bool, len(ids))
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() { stopped[i], later[i] = as.renewSandbox(ctx, id) })
	}
	work.Wait()
	change := &SandboxChange{Stopped: []string{}, NextTurn: []string{}}
	for i, id := range ids {
		switch {
		case stopped[i]:
			change.Stopped = append(change.Stopped, id)
		case later[i]:
			change.NextTurn = append(change.NextTurn, id)
		}
	}
	return change
}

// renewSandbox stops the agent of a session whose sandbox is outdated, and waits
// for its exit. It reports whether it was stopped, and whether it has to be
// stopped later.
func (as Approvals) renewSandbox(ctx context.Context, id string) (stopped, later bool) {
	e, err := as.g.lockOpened(ctx, id)
	if e == nil || err != nil {
		return false, false // it was ended meanwhile
	}
	stopped, later = as.g.opener.stopOutdated(ctx, e)
	e.mu.Lock()
	later = later || e.started.Sandbox.IsOn() && e.inTurn() // also while the agent is being started
	e.mu.Unlock()
	if stopped {
		awaitExit(ctx, e, as.g.cfg.Logger)
	}
	as.g.unlock(e)
	if stopped {
		as.g.feed.touch(id)
	}
	return stopped, later
}

// exitTimeout bounds the wait for the exit of an agent that was stopped.
const exitTimeout = time.Minute

// awaitExit waits until the agent that the session stopped has exited.
func awaitExit(ctx context.Context, e *entry, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	if err := e.session.AwaitExit(ctx); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "the agent of an outdated sandbox has not exited yet", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	}
}

// errBoundSandbox refuses a credential for one project, whose agents reach
// nothing outside of it; see also addDirs.
var errBoundSandbox = runnel.Fail(runnel.Forbidden, "this credential is for one project, and rules about sandboxes are about paths outside of it")

// AllowInSandbox stores a rule of a kind with IsSandbox and returns it as
// stored. It fails if no sandbox may reach the path, if the path does not exist,
// or if the rule is for a session whose agent runs without a sandbox. If an
// equal rule exists, AllowInSandbox returns that rule.
func (as Approvals) AllowInSandbox(ctx context.Context, r store.Rule) (store.Rule, *SandboxChange, error) {
	if onlyProject(ctx) != "" {
		return r, nil, errBoundSandbox
	}
	if r.SessionID != "" {
		if err := as.forSession(ctx, &r); err != nil {
			return r, nil, err
		}
	}
	r, err := rules.Check(r)
	if err != nil {
		return r, nil, runnel.Fail(runnel.InvalidRequest, err.Error())
	}
	path, err := sandbox.Allowance{Path: r.Pattern, Write: r.Kind == store.RuleSandboxWrite}.Check(slices.Concat(as.g.opener.protected(), as.g.opener.withheld()))
	if err != nil {
		return r, nil, runnel.Fail(runnel.InvalidRequest, "pattern: "+err.Error())
	}
	r.Pattern = path.Path
	if r, err = as.g.rules.add(ctx, r); err != nil {
		return r, nil, err
	}
	return r, as.applySandbox(ctx, r), nil
}

// forSession completes a rule for one session: it gets the session's whole id
// and its project.
func (as Approvals) forSession(ctx context.Context, r *store.Rule) error {
	st, err := as.g.Status(ctx, r.SessionID)
	if err != nil {
		return err
	}
	rec, err := as.g.opener.record(ctx, st.SessionID)
	if err != nil {
		return err
	}
	if e := as.g.sessions.peek(rec.ID); e != nil {
		rec, _ = e.snapshot()
	}
	res, err := as.g.opener.resolveRecord(rec)
	switch {
	case err != nil:
		return err
	case !res.Sandbox.IsOn():
		return runnel.Fail(runnel.UnsupportedCapability, "sessionId: the agent of this session runs without a sandbox, so it already reaches what its user can reach, and there is nothing to allow")
	case r.ProjectDir != "" && r.ProjectDir != rec.ProjectDir:
		return runnel.Fail(runnel.InvalidRequest, "projectDir: the session is in "+rec.ProjectDir+"; leave projectDir out")
	}
	r.SessionID, r.ProjectDir = rec.ID, rec.ProjectDir
	return nil
}

// protected returns the paths that no sandbox contains, in addition to those of
// package sandbox.
func (o *opener) protected() []string {
	if o.cfg.DataDir == "" {
		return o.cfg.Protected
	}
	return append([]string{o.cfg.DataDir}, o.cfg.Protected...)
}

// withheld returns the paths that no allowance reaches, in addition to those of
// protected: the state of all agents.
func (o *opener) withheld() (paths []string) {
	for _, p := range o.cfg.Providers {
		if keeper, ok := p.(runnel.StateKeeper); ok {
			paths = append(paths, keeper.StatePaths()...)
		}
	}
	return paths
}

// removeOf removes the rules for one session, which was deleted. It logs its own
// errors: such a rule applies to no other session.
func (b *rulebook) removeOf(ctx context.Context, session string) {
	for _, r := range b.all() {
		if r.SessionID != session {
			continue
		}
		if err := b.remove(ctx, r.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			b.log.LogAttrs(ctx, slog.LevelWarn, "rule of a deleted session not removed", slog.Int64("rule", r.ID), slog.String("error", err.Error()))
		}
	}
}

// prune removes the rules of sessions that no longer exist. A crash during a
// deletion can leave them.
func (b *rulebook) prune(ctx context.Context, sessions store.Catalogue) {
	for _, r := range b.all() {
		if r.SessionID == "" {
			continue
		}
		if _, err := sessions.Session(ctx, r.SessionID); errors.Is(err, store.ErrNotFound) {
			b.removeOf(ctx, r.SessionID)
		}
	}
}
