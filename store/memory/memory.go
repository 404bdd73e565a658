// Package memory implements a log and a catalogue in memory, for tests and for
// servers without durable storage.
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Catalogue stores records in memory. Its copies of records share byte slices
// with its callers, so callers must not change those slices.
type Catalogue struct {
	log store.Log // source of unfinished turns; may be nil

	mu       sync.Mutex
	sessions map[string]store.Session
	reports  map[string]store.Report
	queue    []store.Queued
	tokens   map[string]store.Token
	rules    []store.Rule // oldest first
	lastRule int64        // the highest rule number ever used
	requests map[requestKey]store.Request
	pushKey  string
	pushes   map[string]store.PushSubscription // by credential
}

var _ store.Catalogue = (*Catalogue)(nil)

// New returns an empty catalogue of sessions whose events are in log.
func New(log store.Log) *Catalogue {
	return &Catalogue{
		log: log, sessions: make(map[string]store.Session), reports: make(map[string]store.Report), tokens: make(map[string]store.Token),
		requests: make(map[requestKey]store.Request), pushes: make(map[string]store.PushSubscription),
	}
}

// PutSession implements [store.Catalogue].
func (c *Catalogue) PutSession(_ context.Context, s store.Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[s.ID] = s
	return nil
}

// Session implements [store.Catalogue].
func (c *Catalogue) Session(_ context.Context, id string) (store.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[id]
	if !ok {
		return store.Session{}, store.ErrNotFound
	}
	return s, nil
}

// PutReport implements [store.Catalogue].
func (c *Catalogue) PutReport(_ context.Context, session string, r store.Report) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports[session] = r
	return nil
}

// Report implements [store.Catalogue].
func (c *Catalogue) Report(_ context.Context, session string) (store.Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.reports[session]
	if !ok {
		return r, store.ErrNotFound
	}
	return r, nil
}

// SessionsByAgent implements [store.Catalogue].
func (c *Catalogue) SessionsByAgent(_ context.Context, cliType string, agentSessionIDs ...string) ([]store.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []store.Session
	for _, s := range c.sessions {
		if s.AgentSessionID != "" && s.CLIType == cliType && slices.Contains(agentSessionIDs, s.AgentSessionID) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b store.Session) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return found, nil
}

// Sessions implements [store.Catalogue].
func (c *Catalogue) Sessions(_ context.Context, f store.SessionFilter) ([]store.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []store.Session
	for _, s := range c.sessions {
		if f.ProjectID != "" && s.ProjectID != f.ProjectID || f.ProjectDir != "" && s.ProjectDir != f.ProjectDir ||
			!f.Dead && s.State == event.StateDead || f.State != "" && s.State != f.State {
			continue
		}
		if f.Trim != nil {
			s.Options = f.Trim(s.Options)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b store.Session) int {
		return cmp.Or(b.LastActiveAt.Compare(a.LastActiveAt), cmp.Compare(a.ID, b.ID))
	})
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, nil
}

// DeleteSession implements [store.Catalogue], except that it leaves the events.
func (c *Catalogue) DeleteSession(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, id)
	delete(c.reports, id)
	c.queue = slices.DeleteFunc(c.queue, func(q store.Queued) bool { return q.Session == id })
	maps.DeleteFunc(c.requests, func(_ requestKey, r store.Request) bool { return r.Session == id && r.Turn != "" })
	return nil
}

// Unfinished implements [store.Catalogue].
func (c *Catalogue) Unfinished(ctx context.Context) ([]string, error) {
	if c.log == nil {
		return nil, nil
	}
	all, err := c.Sessions(ctx, store.SessionFilter{Dead: true})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range all {
		st, err := c.log.State(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		if len(st.Open) > 0 {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// Enqueue implements [store.Catalogue].
func (c *Catalogue) Enqueue(_ context.Context, q store.Queued) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, q)
	return nil
}

// Requeue implements [store.Catalogue].
func (c *Catalogue) Requeue(_ context.Context, q store.Queued) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.queue {
		if was := &c.queue[i]; was.Session == q.Session && was.Turn == q.Turn {
			was.Input, was.About = q.Input, q.About
			return nil
		}
	}
	return store.ErrNotFound
}

// OrderQueue implements [store.Catalogue].
func (c *Catalogue) OrderQueue(_ context.Context, session string, turns []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var was []string
	prompts := make(map[string]store.Queued)
	for _, q := range c.queue {
		if q.Session == session {
			was, prompts[q.Turn] = append(was, q.Turn), q
		}
	}
	order := store.Ordered(was, turns)
	for i, q := range c.queue {
		if q.Session == session {
			c.queue[i], order = prompts[order[0]], order[1:]
		}
	}
	return nil
}

// Queue implements [store.Catalogue].
func (c *Catalogue) Queue(_ context.Context, session string) ([]store.Queued, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []store.Queued
	for _, q := range c.queue {
		if session == "" || q.Session == session {
			q.Input = nil
			out = append(out, q)
		}
	}
	return out, nil
}

// QueuedInput implements [store.Catalogue].
func (c *Catalogue) QueuedInput(_ context.Context, session, turn string) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queue {
		if q.Session == session && q.Turn == turn {
			return q.Input, nil
		}
	}
	return nil, store.ErrNotFound
}

// Dequeue implements [store.Catalogue].
func (c *Catalogue) Dequeue(_ context.Context, session, turn string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(q store.Queued) bool { return q.Session == session && q.Turn == turn })
	return nil
}

// PutToken implements [store.Catalogue].
func (c *Catalogue) PutToken(_ context.Context, t store.Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[t.ID] = t
	return nil
}

// TokenByHash implements [store.Catalogue].
func (c *Catalogue) TokenByHash(_ context.Context, hash [32]byte) (store.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tokens {
		if t.Hash == hash {
			return t, nil
		}
	}
	return store.Token{}, store.ErrNotFound
}

// Tokens implements [store.Catalogue].
func (c *Catalogue) Tokens(_ context.Context, kind store.TokenKind) ([]store.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []store.Token
	for _, t := range c.tokens {
		if t.Kind == kind {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b store.Token) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

// DeleteToken implements [store.Catalogue].
func (c *Catalogue) DeleteToken(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tokens[id]; !ok {
		return store.ErrNotFound
	}
	for doomed := []string{id}; len(doomed) > 0; doomed = doomed[1:] {
		delete(c.tokens, doomed[0])
		delete(c.pushes, doomed[0])
		for _, t := range c.tokens {
			if t.Parent == doomed[0] {
				doomed = append(doomed, t.ID)
			}
		}
	}
	return nil
}
