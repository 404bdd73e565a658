package gateway

import (
	"context"
	"fmt"
	"regexp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// Fork creates a session that continues from a copy of another session. It
// fails with TURN_IN_PROGRESS while a turn of that session runs.
func (g *Gateway) Fork(ctx context.Context, ref string) (Status, error) {
	f, err := ForksOf(g).After(ctx, ref, "")
	return f.Status, err
}

// Forks creates sessions that continue other sessions of a Gateway.
type Forks struct {
	g      *Gateway
	record func(runnel.Options) error // nil: forks are not recorded
}

// ForksOf returns the forks of g.
func ForksOf(g *Gateway) Forks { return Forks{g: g} }

// Recorded returns Forks that call record before they create a session, once
// nothing else but its agent can prevent that. record gets the options that the
// forked session itself has, which the new one has, too. If record fails, no
// session is created.
func (f Forks) Recorded(record func(runnel.Options) error) Forks {
	f.record = record
	return f
}

// A Forked is a session that continues another one.
type Forked struct {
	Status

	// Draft is the beginning of the session's first prompt: it quotes the
	// turns that the agent does not know. It is empty if the agent itself
	// continues from a copy of its conversation.
	Draft string
}

// After creates a session that continues a session after one of its turns, or
// after the last one if turn is "".
//
// After the last turn, the agent continues from a copy of its conversation, and
// the session has the earlier events. An agent that cannot do that, or that
// would have to forget later turns, begins a new conversation in an empty
// session; see [Forked.Draft]. Without a turn, After instead fails with
// UNSUPPORTED_CAPABILITY if the agent cannot copy its conversation.
//
// After fails with TURN_IN_PROGRESS if the turn has not ended, or if turn is ""
// and a turn runs.
func (f Forks) After(ctx context.Context, ref, turn string) (Forked, error) {
	g := f.g
	e, err := g.lock(ctx, ref) // no turn starts while the log is read
	if err != nil {
		return Forked{}, err
	}
	defer g.unlock(e)
	from, _ := e.snapshot()
	p, err := g.opener.providers.Choose(from.CLIType)
	if err != nil {
		return Forked{}, err
	}
	draft, err := f.draft(ctx, e, p, turn)
	if err != nil {
		return Forked{}, err
	}
	if st, err := RequestsOf(g).made(ctx); err != nil || st.SessionID != "" {
		return Forked{st, draft}, err
	}
	st, err := f.create(ctx, from, p, draft == "")
	if err != nil {
		return Forked{}, err
	}
	return Forked{st, draft}, nil
}

// draft returns the draft for a fork after a turn of e, or "" if the agent can
// continue from a copy of its conversation; e.sending is held.
func (f Forks) draft(ctx context.Context, e *entry, p runnel.Provider, turn string) (string, error) {
	st := e.session.Status()
	running := st.Turn
	if st.Followed {
		running = "" // the copy of a followed turn is closed
	}
	able := runnel.Require(p, runnel.CapSessionFork)
	if turn == "" {
		if able == nil && running != "" {
			return "", inProgress(e.rec.ID, running)
		}
		return "", able
	}
	q := newQuotation(turn)
	for ev, err := range f.g.cfg.Log.Read(ctx, e.rec.ID, 0) {
		if err != nil {
			return "", storeError(err)
		}
		q.add(ev)
	}
	switch {
	case !q.begun:
		return "", runnel.Fail(runnel.InvalidRequest, "turnId: the session has no such turn")
	case !q.ended:
		return "", inProgress(e.rec.ID, turn)
	case q.last && able == nil && running == "" && st.AgentSessionID != "":
		return "", nil
	}
	return q.text(), nil
}

// forked matches the end of a title that title made.
var forked = regexp.MustCompile(` \(fork(?: \d{1,9})?\)$`)

// title returns a title for a fork of from that no session of its project has:
// the title of from with " (fork)", " (fork 2)" and so on. It is "" if from has
// no title. Agents do not change it, because the agent of the fork reports the
// title of the conversation that it copied.
func (f Forks) title(ctx context.Context, from store.Session) (string, error) {
	title := forked.ReplaceAllString(titleOf(from, keptOf(from.Options).keptCare), "")
	if title == "" {
		return "", nil
	}
	all, err := f.g.roster.list(ctx)
	if err != nil {
		return "", err
	}
	taken := make(map[string]bool)
	for _, l := range all {
		taken[l.Title] = taken[l.Title] || l.ProjectDir == from.ProjectDir
	}
	end := " (fork)"
	for n := 2; ; n++ {
		if whole := text.OneLine(title, MaxChosenTitle-len(end)) + end; !taken[whole] {
			return whole, nil
		}
		end = fmt.Sprintf(" (fork %d)", n)
	}
}

// create creates a session with the settings of from. If whole is set, it has
// the events of from, and its agent continues from a copy of its conversation.
func (f Forks) create(ctx context.Context, from store.Session, p runnel.Provider, whole bool) (Status, error) {
	g := f.g
	if keptOf(from.Options).Worktree != nil {
		return Status{}, runnel.Fail(runnel.UnsupportedCapability, "fork: this session has a worktree of its own, in which only one agent can work; create a new session instead")
	}
	if err := g.opener.projects.recheck(from.ProjectDir); err != nil { // the agent of the copy starts there
		return Status{}, err
	}
	res, err := g.opener.options(ctx, from)
	if err != nil {
		return Status{}, err
	}
	rec, err := newRecord(g.cfg.Sealer, p, from.ProjectDir, runnel.Options{}, res)
	if err != nil {
		return Status{}, err
	}
	if err := g.opener.limits.mayStart(credentialOf(ctx)); err != nil {
		return Status{}, err
	}
	title, err := f.title(ctx, from)
	if err != nil {
		return Status{}, err
	}
	kept := keptOf(from.Options).keptCare
	kept.ChosenTitle = title
	rec.Title, rec.Options, rec.ModelID = from.Title, optionsOfCopy(kept.in(from.Options)), from.ModelID
	n := newSession{provider: p, res: res, rec: rec}
	if whole {
		n.res.Options.Fork = true
		n.fill = func(ctx context.Context) error {
			if err := g.pictures.share(from.ID, rec.ID); err != nil {
				return err
			}
			return copyLog(ctx, g.cfg.Log, from.ID, rec.ID, event.SessionUpdated{Title: title, TitleBy: event.TitleByUser})
		}
	} else {
		n.res.Options.Resume = ""
	}
	if f.record != nil {
		own, err := decodeOptions(g.cfg.Sealer, from.Options)
		if err == nil {
			err = f.record(own)
		}
		if err != nil {
			return Status{}, err
		}
	}
	if err := g.creator.create(ctx, n); err != nil {
		return Status{}, err
	}
	return g.Status(ctx, rec.ID)
}
