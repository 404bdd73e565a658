package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Load opens a session so that its history can be read and its next prompt
// sent. It brings back one that was ended. A conversation that began outside of
// us, named as cliType:agentId, is copied from the agent's own files first;
// file then says which of them.
func (g *Gateway) Load(ctx context.Context, ref, file string) (Status, error) {
	id, err := g.resolve(ctx, ref, file, true)
	if err != nil {
		return Status{}, err
	}
	rec, err := g.record(ctx, id)
	if err != nil {
		return Status{}, err
	}
	if rec.State == event.StateDead {
		rec.State, rec.LastActiveAt = event.StateOpen, time.Now().UTC()
		if err := g.cfg.Catalogue.PutSession(ctx, rec); err != nil {
			return Status{}, storeError(err)
		}
		g.feed.touch(id)
	}
	e, err := g.acquire(ctx, id)
	if err != nil {
		return Status{}, err
	}
	defer g.release(e)
	return g.status(e), nil
}

// Resolve returns our id for what a client may call a session: that id, or
// cliType:agentId of a conversation that we know.
func (g *Gateway) Resolve(ctx context.Context, ref string) (string, error) {
	return g.resolve(ctx, ref, "", false)
}

// find opens the session that a client named, whatever it is called.
func (g *Gateway) find(ctx context.Context, ref string) (*entry, error) {
	id, err := g.resolve(ctx, ref, "", true)
	if err != nil {
		return nil, err
	}
	return g.acquire(ctx, id)
}

func (g *Gateway) resolve(ctx context.Context, ref, file string, copyIt bool) (string, error) {
	cli, agentID, foreign := strings.Cut(ref, ":")
	if !foreign {
		if uuid.Validate(ref) != nil {
			return "", runnel.Fail(runnel.SessionNotFound, "there is no such session")
		}
		return ref, nil
	}
	p, err := g.providers.Choose(cli)
	if err != nil {
		return "", err
	}
	rec, err := g.cfg.Catalogue.SessionByAgent(ctx, p.Name(), agentID)
	switch {
	case err == nil && rec.State != event.StateLoading: // else it is being copied
		return rec.ID, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return "", storeError(err)
	case !copyIt:
		return "", runnel.Fail(runnel.SessionNotFound, "there is no such session; if the conversation began outside of runnel, load it first")
	}
	return g.adopt(ctx, p, agentID, file)
}

// adopt copies a conversation that an agent kept into a session of ours, once
// for all who ask.
func (g *Gateway) adopt(ctx context.Context, p runnel.Provider, agentID, file string) (string, error) {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return "", errClosing()
	}
	key := p.Name() + ":" + agentID
	f := g.flights[key]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		g.flights[key] = f
		g.work.Go(func() {
			f.id, f.err = g.copyConversation(g.ctx, p, agentID, file)
			g.mu.Lock()
			delete(g.flights, key)
			g.mu.Unlock()
			close(f.done)
		})
	}
	g.mu.Unlock()
	select {
	case <-f.done:
		return f.id, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (g *Gateway) copyConversation(ctx context.Context, p runnel.Provider, agentID, file string) (string, error) {
	if rec, err := g.cfg.Catalogue.SessionByAgent(ctx, p.Name(), agentID); err == nil {
		return rec.ID, nil // it was copied while we waited
	}
	h, ok := p.(runnel.Historian)
	if !ok {
		return "", runnel.Fail(runnel.UnsupportedCapability, p.Name()+" cannot read conversations that began elsewhere")
	}
	c, err := discover(ctx, p, agentID, file)
	if err != nil {
		return "", err
	}
	rec, err := newRecord(p, canonical(c.Dir), runnel.Options{})
	if err != nil {
		return "", err
	}
	rec.AgentSessionID, rec.Title, rec.State = agentID, line(c.Title, titleBytes), event.StateLoading
	if !c.CreatedAt.IsZero() {
		rec.CreatedAt = c.CreatedAt
	}
	if !c.UpdatedAt.IsZero() {
		rec.LastActiveAt = c.UpdatedAt
	}
	if err := g.cfg.Catalogue.PutSession(ctx, rec); err != nil {
		return "", storeError(err)
	}
	e := &entry{g: g, rec: rec} // folds the record as a live one would
	c.Trusted = Trusts(g.cfg.TrustedDirs, c.Dir)
	history := h.History(ctx, c)
	if g.cfg.Filter != nil {
		history = runnel.Filtered(g.cfg.Filter(runnel.Options{Dir: rec.ProjectDir}), history)
	}
	events := runnel.Replay(rec.ID, p.Name(), history)
	err = g.fillLog(ctx, rec.ID, func(yield func(event.Event, error) bool) {
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
		e.rec.AgentSessionID, e.rec.State = agentID, event.StateOpen
		err = g.cfg.Catalogue.PutSession(ctx, e.rec)
	}
	if err != nil {
		g.erase(rec.ID)
		return "", storeError(runnel.Safe(err))
	}
	g.feed.touch(rec.ID)
	return rec.ID, nil
}

// discover finds a conversation among those the agent keeps. A file that a
// client names counts only if it is one of them: any other is not read.
func discover(ctx context.Context, p runnel.Provider, agentID, file string) (runnel.Conversation, error) {
	if f, ok := p.(runnel.Finder); ok {
		c, err := f.Find(ctx, agentID)
		if err == nil && (file == "" || c.File == file) {
			return c, nil
		}
	}
	d, ok := p.(runnel.Discoverer)
	if !ok {
		return runnel.Conversation{}, runnel.Fail(runnel.UnsupportedCapability, p.Name()+" cannot list conversations that began elsewhere")
	}
	for c, err := range d.Discover(ctx, "") {
		if err != nil {
			return runnel.Conversation{}, runnel.Safe(err)
		}
		if c.AgentSessionID == agentID && (file == "" || c.File == file) {
			return c, nil
		}
	}
	return runnel.Conversation{}, runnel.Fail(runnel.SessionNotFound, "the agent keeps no such conversation")
}
