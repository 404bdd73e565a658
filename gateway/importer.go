package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Load opens a session so that clients can read its history and send its next
// prompt. It reopens a session that was ended, if its directory still exists.
//
// If ref is cliType:agentId and names a conversation that is not a session yet,
// Load copies the conversation from the agent's own files. file may name the
// file to copy. If the conversation already is a session, Load adds the turns
// that the conversation has gained since, unless a turn runs.
func (g *Gateway) Load(ctx context.Context, ref, file string) (Status, error) {
	id, err := g.importer.resolve(ctx, ref, file, false)
	copied := runnel.CodeOf(err) == runnel.SessionNotFound
	if copied {
		id, err = g.importer.resolve(ctx, ref, file, true)
	}
	if err != nil {
		return Status{}, err
	}
	rec, err := g.ended(ctx, id)
	if err != nil {
		return Status{}, err
	}
	if rec.State == event.StateDead {
		if err := g.opener.projects.recheckSession(rec); err != nil { // no agent could start there
			return Status{}, err
		}
		if err := g.importer.reopen(ctx, id); err != nil {
			return Status{}, err
		}
		g.feed.touch(id)
	}
	e, err := g.lock(ctx, id) // no turn starts while the history is read
	if err != nil {
		return Status{}, err
	}
	defer g.unlock(e)
	if err := g.follows.loaded(ctx, e, file, copied); err != nil {
		return Status{}, err
	}
	return e.status(), nil
}

// ended returns the record of a session. If the session is being ended, which
// clients see before its record is written and its agent has exited, ended
// waits for that.
func (g *Gateway) ended(ctx context.Context, id string) (rec store.Session, err error) {
	e := g.sessions.peek(id)
	if e != nil {
		rec, _ = e.snapshot()
	}
	if rec.State == event.StateDead {
		if e, err = g.lockOpened(ctx, id); err != nil {
			return rec, err
		}
		if e != nil {
			g.unlock(e)
		}
	}
	return g.opener.record(ctx, id)
}

// Resolve returns the id of an existing session. ref is that id or
// cliType:agentId. If dir is not empty, Resolve finds an agentId only among the
// sessions of that project.
func (g *Gateway) Resolve(ctx context.Context, ref, dir string) (string, error) {
	return g.importer.resolveIn(ctx, ref, "", dir, false)
}

// An importer resolves the references by which clients name sessions, and
// copies conversations that agents store into sessions.
type importer struct {
	opener   *opener
	sessions *sessions
	writers  *writers
	hidden   *hiddenList
	group    singleflight.Group // running copies, by conversation
}

// reopen marks a dead session as open in the catalogue. A session that is
// deleted concurrently stays deleted.
func (m *importer) reopen(ctx context.Context, id string) error {
	_, err := m.sessions.hold(ctx, id, nil, func() error {
		rec, err := m.opener.record(ctx, id)
		if err != nil || rec.State != event.StateDead {
			return err
		}
		rec.State, rec.LastActiveAt = event.StateOpen, time.Now().UTC()
		if err := m.opener.cfg.Catalogue.PutSession(ctx, rec); err != nil {
			return storeError(err)
		}
		return nil
	})
	return err
}

// resolve is [Gateway.Resolve] for all projects. If copyIt is set, it copies a
// conversation that is not a session yet; file is then the file to copy, or "".
func (m *importer) resolve(ctx context.Context, ref, file string, copyIt bool) (string, error) {
	return m.resolveIn(ctx, ref, file, "", copyIt)
}

// resolveIn is resolve for the sessions of one project. If dir is "", it is for
// all projects.
func (m *importer) resolveIn(ctx context.Context, ref, file, dir string, copyIt bool) (string, error) {
	cli, agentID, foreign := strings.Cut(ref, ":")
	if !foreign {
		if uuid.Validate(ref) != nil {
			return "", NotFound(ref)
		}
		return ref, nil
	}
	if len(agentID) > event.MaxAgentSessionID {
		return "", runnel.Fail(runnel.SessionNotFound, "there is no such session: the agent's id is too long")
	}
	p, err := m.opener.providers.Choose(cli)
	if err != nil {
		return "", err
	}
	rec, err := m.continuing(ctx, p, agentID, dir)
	switch {
	case err == nil && rec.State != event.StateLoading: // a session in this state is still being copied
		return rec.ID, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return "", storeError(err)
	case !copyIt:
		e := NotFound(ref)
		e.Message += "; if the conversation began outside of runnel, load it first"
		return "", e
	}
	return m.copyOnce(ctx, p, agentID, file)
}

// continuing returns the newest session of the project dir that continues the
// agent's conversation. If dir is "", it searches all projects.
//
// It returns an error if sessions of several projects match. An agent chooses
// the id that it reports, and must not receive prompts that are meant for a
// session of another project.
func (m *importer) continuing(ctx context.Context, p runnel.Provider, agentID, dir string) (store.Session, error) {
	list, err := m.opener.cfg.Catalogue.SessionsByAgent(ctx, p.Name(), agentID)
	if err != nil {
		return store.Session{}, err
	}
	list = m.withOpen(list, p.Name(), agentID)
	if dir != "" {
		list = slices.DeleteFunc(list, func(r store.Session) bool { return r.ProjectDir != dir })
	}
	if len(list) == 0 {
		return store.Session{}, store.ErrNotFound
	}
	if i := slices.IndexFunc(list, func(r store.Session) bool { return r.ProjectDir != list[0].ProjectDir }); i >= 0 {
		return store.Session{}, &runnel.Error{
			Code: runnel.InvalidRequest, Message: "sessions of several projects have this agentSessionId; use the sessionId of one of them",
			Details: map[string][]string{"sessionIds": {list[0].ID, list[i].ID}},
		}
	}
	return list[0], nil
}

// withOpen updates the catalogue's list of sessions for an agent's conversation
// with the state of open sessions. Clients may know an agent's id before the
// record with it is written.
func (m *importer) withOpen(list []store.Session, cliType, agentID string) []store.Session {
	for _, e := range m.sessions.all() {
		rec, _ := e.snapshot()
		list = slices.DeleteFunc(list, func(r store.Session) bool { return r.ID == rec.ID })
		if agentID != "" && rec.CLIType == cliType && rec.AgentSessionID == agentID {
			list = append(list, rec)
		}
	}
	slices.SortStableFunc(list, func(a, b store.Session) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}

// readerFor returns the provider that reads a conversation of p's agent to copy
// it: that of the agent that stores the conversation, unless that provider needs
// an agent that is not installed.
func (m *importer) readerFor(ctx context.Context, p runnel.Provider) runnel.Provider {
	owner := m.writers.owner(p)
	if _, reads := owner.(runnel.FileHistorian); reads || owner.Name() == p.Name() {
		return owner
	}
	known := m.opener.detector.Last(owner.Name())
	if prober, ok := owner.(runnel.Prober); ok && known == nil {
		found := prober.Probe(ctx)
		known = &found
	}
	if known != nil && !known.Installed {
		return p
	}
	return owner
}

// readerOf returns the provider that reads the conversation of a session. It is
// the one with which the session was copied, because others give other ids.
func (m *importer) readerOf(rec store.Session) runnel.Provider {
	p := m.opener.providers.Named(rec.CLIType)
	if p != nil && keptOf(rec.Options).Copied {
		return m.writers.owner(p)
	}
	return p
}

// diff returns the historyDiff of a session, which has taken the events of its
// log.
func (m *importer) diff(ctx context.Context, rec store.Session) (*historyDiff, error) {
	p := m.opener.providers.Named(rec.CLIType)
	_, positional := p.(runnel.PositionalHistorian)
	n := newHistoryDiff(positional)
	n.copied = m.readerOf(rec).Name() != p.Name()
	for ev, err := range m.opener.cfg.Log.Read(ctx, rec.ID, 0) {
		if err != nil {
			return nil, storeError(err)
		}
		n.logHas(ev)
	}
	return n, nil
}

// copyOnce calls copyConversation once for all concurrent callers. The copy
// continues if its callers leave; Gateway.Close waits for it.
func (m *importer) copyOnce(ctx context.Context, p runnel.Provider, agentID, file string) (string, error) {
	result := m.group.DoChan(p.Name()+":"+agentID, func() (any, error) {
		leave, err := m.sessions.enter()
		if err != nil {
			return "", err
		}
		defer leave()
		return m.copyConversation(m.opener.ctx, p, agentID, file)
	})
	select {
	case r := <-result:
		return r.Val.(string), r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// copyConversation returns the id of the session that continues a conversation
// of an agent. If there is none, copyConversation copies the conversation from
// the agent's own files into a new session.
func (m *importer) copyConversation(ctx context.Context, p runnel.Provider, agentID, file string) (string, error) {
	if rec, err := m.continuing(ctx, p, agentID, ""); err == nil {
		return rec.ID, nil // another call has copied it meanwhile
	}
	from := m.readerFor(ctx, p)
	h, ok := from.(runnel.Historian)
	if !ok {
		return "", runnel.Fail(runnel.UnsupportedCapability, runnel.DisplayName(p)+" cannot read conversations that began outside of runnel")
	}
	c, err := discover(ctx, from, agentID, file)
	if err != nil {
		return "", err
	}
	switch {
	case c.Dir == "":
		return "", runnel.Fail(runnel.WorkingRootInaccessible, "the agent's files do not say in which directory the conversation began. Continue it in the agent's own terminal")
	case len(c.Dir) > event.MaxPath:
		return "", runnel.Fail(runnel.WorkingRootInaccessible, "the path of the conversation's directory is too long")
	}
	rec, err := newRecord(m.opener.cfg.Sealer, p, canonical(c.Dir), runnel.Options{}, resolution{})
	if err != nil {
		return "", err
	}
	rec.AgentSessionID, rec.Title, rec.State = agentID, line(c.Title, titleBytes), event.StateLoading
	rec.Options = keptCare{Copied: from.Name() != p.Name()}.in(rec.Options)
	if !c.CreatedAt.IsZero() {
		rec.CreatedAt = c.CreatedAt
	}
	if !c.UpdatedAt.IsZero() {
		rec.LastActiveAt = c.UpdatedAt
	}
	events := m.historyOf(ctx, h, p.Name(), rec.ID, c)
	if file == "" && m.writers.inUse(ctx, from, c) { // Load follows the conversation, which adds the events
		events = func(func(event.Event, error) bool) {}
	}
	// The session is in lists from now on. hold lets calls for it wait for its events.
	if _, err := m.sessions.hold(ctx, rec.ID, nil, func() error { return m.storeCopy(ctx, rec, events) }); err != nil {
		return "", err
	}
	m.hidden.set(m.writers.owner(p).Name(), agentID, false)
	m.opener.feed.touch(rec.ID)
	return rec.ID, nil
}

// storeCopy stores a session with the events of its conversation. Until it has
// them all, the session is loading, so that a crash leaves no session.
func (m *importer) storeCopy(ctx context.Context, rec store.Session, events iter.Seq2[event.Event, error]) error {
	catalogue := m.opener.cfg.Catalogue
	if err := catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	e := &entry{rec: rec} // folds the events into the record, as for an open session
	err := fillLog(ctx, m.opener.cfg.Log, rec.ID, func(yield func(event.Event, error) bool) {
		for ev, err := range events {
			if err == nil {
				e.note(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	})
	if err == nil {
		e.rec.AgentSessionID, e.rec.State = rec.AgentSessionID, event.StateOpen
		var report store.Report
		if report, err = e.reported.record(); err == nil {
			err = catalogue.PutReport(ctx, rec.ID, report)
		}
		if err == nil {
			err = catalogue.PutSession(ctx, e.rec)
		}
	}
	if err != nil {
		m.opener.erase(rec.ID)
		return storeError(runnel.Safe(err))
	}
	return nil
}

// historyOf is history for a session. It also stores the images of the prompts
// for the session.
func (m *importer) historyOf(ctx context.Context, h runnel.Historian, provider, session string, c runnel.Conversation) iter.Seq2[event.Event, error] {
	images := m.opener.pictures.reader(session)
	c.Pictures = images.keep
	return images.checked(m.history(ctx, h, provider, session, c))
}

// history returns the events of a conversation in the form of a session's log.
func (m *importer) history(ctx context.Context, h runnel.Historian, provider, session string, c runnel.Conversation) iter.Seq2[event.Event, error] {
	c.Trusted = m.opener.projects.trusts(c.Dir)
	history := h.History(ctx, c)
	if m.opener.cfg.Filter != nil {
		history = runnel.Filtered(m.opener.cfg.Filter(runnel.Options{Dir: canonical(c.Dir)}), history)
	}
	return runnel.Replay(session, provider, history)
}

// discover finds a conversation among those that the agent stores. A file that
// a client names is read only if the agent lists it for this conversation.
func discover(ctx context.Context, p runnel.Provider, agentID, file string) (runnel.Conversation, error) {
	if f, ok := p.(runnel.Finder); ok {
		c, err := f.Find(ctx, agentID)
		if err == nil && (file == "" || c.File == file || slices.Contains(c.Older, file)) {
			return c, nil
		}
		if _, lists := p.(runnel.Discoverer); !lists {
			return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the agent has stored no such conversation")
		}
	}
	d, ok := p.(runnel.Discoverer)
	if !ok {
		return runnel.Conversation{}, runnel.Fail(runnel.UnsupportedCapability, runnel.DisplayName(p)+" cannot list conversations that began outside of runnel")
	}
	for c, err := range d.Discover(ctx, "") {
		if err != nil {
			return runnel.Conversation{}, runnel.Safe(err)
		}
		if c.AgentSessionID == agentID && (file == "" || c.File == file) {
			return c, nil
		}
	}
	return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the agent has stored no such conversation")
}
