package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Listed is a session in a list. JSON is its [Status] in JSON. Lists share
// these bytes, so a caller must not change them.
type Listed struct {
	SessionID    string
	ProjectID    string
	ProjectDir   string
	Title        string
	State        event.SessionState
	Archived     bool
	LastActiveAt time.Time
	JSON         json.RawMessage
}

// A roster lists sessions. It keeps the list entries of sessions that are not
// open in memory, about a kilobyte each. It reads an entry again after the
// session's record has changed. The log of such a session does not grow, so the
// rest of the entry stays the same.
type roster struct {
	catalogue store.Catalogue
	log       runnel.Log
	sessions  *sessions

	reading sync.Mutex        // held while entries are read
	kept    map[string]Listed // by session; nil until they are read; guarded by reading
	order   []Listed          // the entries of kept in the order of a list; nil after one changed; guarded by reading

	mu    sync.Mutex
	stale map[string]struct{} // sessions whose entry may be old
}

// A rosterCatalogue is a Catalogue that reports changed records to the roster.
type rosterCatalogue struct {
	store.Catalogue
	r *roster
}

func (c rosterCatalogue) PutSession(ctx context.Context, s store.Session) error {
	defer c.r.touch(s.ID) // after the change
	return c.Catalogue.PutSession(ctx, s)
}

func (c rosterCatalogue) DeleteSession(ctx context.Context, id string) error {
	defer c.r.touch(id)
	return c.Catalogue.DeleteSession(ctx, id)
}

func (r *roster) touch(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale == nil {
		r.stale = make(map[string]struct{})
	}
	r.stale[id] = struct{}{}
}

// list returns all sessions, newest activity first.
func (r *roster) list(ctx context.Context) ([]Listed, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	open := make(map[string]*entry)
	for _, e := range r.sessions.all() {
		open[e.session.ID()] = e
		r.touch(e.session.ID()) // its kept entry will be old when it closes
	}
	if err := r.refresh(ctx, open); err != nil {
		return nil, storeError(err)
	}
	ours := make([]Listed, 0, len(open))
	for _, e := range open {
		l, err := listed(rowOf(e))
		if err != nil {
			return nil, err
		}
		ours = append(ours, l)
	}
	slices.SortFunc(ours, newestFirst)
	if r.order == nil {
		r.order = slices.SortedFunc(maps.Values(r.kept), newestFirst)
	}
	return merged(r.order, ours, open), nil
}

// merged merges two sorted lists. It leaves those sessions out of kept that are
// open.
func merged(kept, ours []Listed, open map[string]*entry) []Listed {
	all := make([]Listed, 0, len(kept)+len(ours))
	for _, l := range kept {
		if open[l.SessionID] != nil {
			continue
		}
		for len(ours) > 0 && newestFirst(ours[0], l) < 0 {
			all, ours = append(all, ours[0]), ours[1:]
		}
		all = append(all, l)
	}
	return append(all, ours...)
}

func newestFirst(a, b Listed) int {
	return cmp.Or(b.LastActiveAt.Compare(a.LastActiveAt), cmp.Compare(a.SessionID, b.SessionID))
}

// row returns the status of a session for a list.
func (r *roster) row(ctx context.Context, rec store.Session) (Status, error) {
	if e := r.sessions.peek(rec.ID); e != nil {
		return rowOf(e), nil
	}
	st, err := dormant(ctx, r.log, r.catalogue, rec)
	return st.row(), err
}

// rowOf returns the status of an open session for a list.
func rowOf(e *entry) Status { return e.status().row() }

// row returns the part of a status that lists show. They omit the rest because
// it is long.
func (st Status) row() Status {
	st.Config, st.Files, st.Commands, st.Resolved, st.Queue = nil, nil, nil, nil, nil
	return st
}

// refresh reads the entries that are missing or stale, except those of open
// sessions; r.reading is held.
func (r *roster) refresh(ctx context.Context, open map[string]*entry) error {
	if r.kept == nil {
		return r.readAll(ctx)
	}
	r.mu.Lock()
	var stale []string
	for id := range r.stale {
		if open[id] == nil {
			stale = append(stale, id)
			delete(r.stale, id)
		}
	}
	r.mu.Unlock()
	for i, id := range stale {
		if err := r.read(ctx, id); err != nil {
			for _, id := range stale[i:] {
				r.touch(id)
			}
			return err
		}
	}
	return nil
}

func (r *roster) read(ctx context.Context, id string) error {
	r.order = nil
	rec, err := r.catalogue.Session(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		delete(r.kept, id)
		return nil
	}
	if err != nil {
		return err
	}
	st, err := dormant(ctx, r.log, r.catalogue, rec)
	if err == nil {
		r.kept[id], err = listed(st.row())
	}
	return err
}

func (r *roster) readAll(ctx context.Context) error {
	heads, err := r.heads(ctx)
	if err != nil {
		return err
	}
	recs, err := r.catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Trim: Described})
	if err != nil {
		return err
	}
	kept := make(map[string]Listed, len(recs))
	for _, rec := range recs {
		st := Describe(rec)
		st.LastSeq = heads[rec.ID]
		if heads == nil || rec.QueueHeld {
			if st, err = dormant(ctx, r.log, r.catalogue, rec); err != nil {
				return err
			}
		}
		if kept[rec.ID], err = listed(st.row()); err != nil {
			return err
		}
	}
	r.kept, r.order = kept, nil
	return nil
}

// heads returns the ends of all logs, or nil if the log cannot list them.
func (r *roster) heads(ctx context.Context) (map[string]int64, error) {
	if log, ok := r.log.(store.HeadLister); ok {
		return log.Heads(ctx)
	}
	return nil, nil
}

func listed(st Status) (Listed, error) {
	data, err := json.Marshal(st)
	return Listed{st.SessionID, st.ProjectID, st.ProjectDir, st.Title, st.State, st.Archived, st.LastActiveAt, data}, err
}

// Listed returns the sessions that f selects, newest activity first, as JSON.
// It is [Gateway.List] for long lists.
func (g *Gateway) Listed(ctx context.Context, f Filter) ([]Listed, error) {
	f, ok := f.within(onlyProject(ctx))
	if !ok {
		return nil, nil
	}
	all, err := g.roster.list(ctx)
	return slices.DeleteFunc(all, func(l Listed) bool {
		return !f.selects(l.State, l.Archived) || !f.inProject(l.ProjectID, l.ProjectDir)
	}), err
}

// within restricts f to a project, unless own is "". It returns false if f
// selects no session then.
func (f Filter) within(own string) (Filter, bool) {
	if f.ProjectDir != "" && f.ProjectDir != own {
		f.ProjectDir = canonical(f.ProjectDir)
	}
	if own != "" {
		if f.ProjectDir != "" && f.ProjectDir != own {
			return f, false
		}
		f.ProjectDir = own
	}
	return f, true
}
