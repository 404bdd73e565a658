package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// A RetentionPolicy says which sessions are deleted. The zero value deletes
// none. A session in which a turn runs, an approval waits or prompts are queued
// is never deleted.
type RetentionPolicy struct {
	Age   time.Duration // delete sessions that were not active for this long. Default: never
	Bytes int64         // delete the sessions with the oldest activity while all sessions together are larger. Default: no limit
}

// sizeGrace is the time after its last activity in which a session is not
// deleted because of its size.
const sizeGrace = time.Hour

// retentionEvery is the time between two applications of the policy. The first
// one is as long after the start, so that a mistake in a new configuration can
// be seen in the preview.
const retentionEvery = time.Hour

// An Expired is a session that a policy deletes.
type Expired struct {
	SessionID    string    `json:"sessionId"`
	ProjectDir   string    `json:"projectDir" doc:"Absolute path of the directory that the agent works in."`
	Title        string    `json:"title"`
	LastActiveAt time.Time `json:"lastActiveAt" doc:"Time of the newest event."`
	Bytes        int64     `json:"bytes" doc:"Approximate size of the session's events and debug capture."`
	Reason       string    `json:"reason" enum:"age,size" doc:"Why the session is deleted. age: it was not active for long enough. size: all sessions together are too large, and it is among those with the oldest activity."`

	Worktree *DeletedWorktree `json:"worktree,omitempty" doc:"What becomes of the session's git worktree. It is removed with its branch, and with files that git ignores, unless that would lose files that are not committed or commits that no other branch has. Absent if the session has none."`

	active time.Time // activity at which the session was selected
}

// An Expiry is what a policy deletes.
type Expiry struct {
	OlderThan   string    `json:"olderThan,omitempty" doc:"Sessions that were not active for this long are deleted, such as 720h0m0s. Absent: none."`
	MaxBytes    int64     `json:"maxBytes,omitempty" doc:"Size of all sessions beyond which those with the oldest activity are deleted. Absent: no limit."`
	StoredBytes int64     `json:"storedBytes" doc:"Approximate size of the events and debug captures of all sessions."`
	IndexBytes  int64     `json:"indexBytes,omitempty" doc:"Size of the search index and of the index of stored conversations. They are made from the sessions and the agents' files, and are not part of storedBytes."`
	FreedBytes  int64     `json:"freedBytes" doc:"Approximate size of the sessions that are deleted."`
	Count       int       `json:"count" doc:"Number of sessions that are deleted."`
	Sessions    []Expired `json:"sessions" doc:"The sessions that are deleted, oldest activity first: at most the first 1000."`
}

const maxExpired = 1000

// Retention deletes old sessions of a Gateway.
type Retention struct{ g *Gateway }

// RetentionOf returns the retention of the sessions of g.
func RetentionOf(g *Gateway) Retention { return Retention{g} }

// deletionHook is called with the id of each session that the policy deletes.
type deletionHook struct {
	mu sync.Mutex // not held during a call of f
	f  func(id string)
}

func (h *deletionHook) set(f func(id string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f = f
}

func (h *deletionHook) call(id string) {
	h.mu.Lock()
	f := h.f
	h.mu.Unlock()
	if f != nil {
		f(id)
	}
}

// OnDelete sets the function that is called with the id of each session that
// the policy has deleted. It must not block.
func (r Retention) OnDelete(f func(id string)) { r.g.expired.set(f) }

// Policy returns the policy of the configuration.
func (r Retention) Policy() RetentionPolicy { return r.g.cfg.Retention }

// Preview returns what p would delete now. It changes nothing.
func (r Retention) Preview(ctx context.Context, p RetentionPolicy) (Expiry, error) {
	x, all, err := r.plan(ctx, p, time.Now())
	x.Sessions = append(x.Sessions, all[:min(len(all), maxExpired)]...)
	if err != nil {
		return x, err
	}
	return x, r.examine(ctx, x.Sessions)
}

// maxExamined bounds the worktrees that one preview examines.
const maxExamined = 50

// examine fills what becomes of the worktrees of sessions that a policy deletes.
func (r Retention) examine(ctx context.Context, all []Expired) error {
	h, left := HousekeepingOf(r.g), maxExamined
	for i := range all {
		rec, project, stays, err := h.worktreeOf(ctx, all[i].SessionID)
		if runnel.CodeOf(err) == runnel.SessionNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		w := keptOf(rec.Options).shownWorktree()
		switch {
		case w == nil || w.Removed:
			continue
		case left == 0:
			all[i].Worktree = &DeletedWorktree{Root: w.Root, Branch: w.Branch, Unexamined: true}
			continue
		}
		left--
		all[i].Worktree = WorktreesOf(r.g).ofDeleted(ctx, rec, project, stays, removal{may: expiryMayLose})
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Apply is [Retention.ApplyRecorded] with the AuditDeletion of the
// configuration.
func (r Retention) Apply(ctx context.Context, p RetentionPolicy) (Expiry, error) {
	return r.ApplyRecorded(ctx, p, func(e audit.Record) error {
		e.By, e.Who = event.ByPolicy, "retention"
		return r.g.cfg.AuditDeletion(e)
	})
}

// ApplyRecorded deletes the sessions that p selects and returns them. It calls
// record before it deletes a session, and stops with the error of record. A
// worktree with work stays. A session that has become active meanwhile stays. So
// does a session whose conversation cannot be hidden; ApplyRecorded then deletes
// the others and fails.
func (r Retention) ApplyRecorded(ctx context.Context, p RetentionPolicy, record func(audit.Record) error) (Expiry, error) {
	x, all, err := r.plan(ctx, p, time.Now())
	if err != nil {
		return x, err
	}
	x.Count, x.FreedBytes = 0, 0
	var notHidden error // the first one
	for _, s := range all {
		h := HousekeepingOf(r.g).Recorded(func(session string) error {
			return record(audit.Record{Kind: audit.SessionDeleted, Session: session, What: "retention by " + s.Reason})
		})
		d, err := h.deleteIf(ctx, s.SessionID, func() error { return r.stillExpired(ctx, s) })
		if runnel.CodeOf(err) == runnel.TurnInProgress || runnel.CodeOf(err) == runnel.SessionNotFound {
			continue
		}
		if errors.Is(err, errNotHidden) {
			r.g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "session not deleted by the retention policy", slog.String("session", s.SessionID), slog.String("error", err.Error()))
			notHidden = cmp.Or(notHidden, err)
			continue
		}
		if err != nil {
			return x, err
		}
		x.Count++
		x.FreedBytes += s.Bytes
		s.Worktree = d.Worktree
		if len(x.Sessions) < maxExpired {
			x.Sessions = append(x.Sessions, s)
		}
		r.g.expired.call(s.SessionID)
		r.g.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "session deleted by the retention policy", slog.String("session", s.SessionID), slog.String("reason", s.Reason), slog.Time("lastActive", s.LastActiveAt))
		if w := d.Worktree; w != nil {
			r.g.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "worktree of a deleted session", slog.String("session", s.SessionID), slog.String("worktree", w.Root), slog.String("branch", w.Branch), slog.Bool("stays", w.Stays), slog.String("why", w.Why), slog.Any("ignored", w.Ignored))
		}
	}
	return x, notHidden
}

// stillExpired fails with TURN_IN_PROGRESS if a session was used since it was
// selected. Nobody can use it meanwhile.
func (r Retention) stillExpired(ctx context.Context, s Expired) error {
	if err := HousekeepingOf(r.g).checkIdle(ctx, s.SessionID); err != nil {
		return err
	}
	rec, err := r.g.opener.record(ctx, s.SessionID)
	if err != nil {
		return err
	}
	if e := r.g.sessions.peek(s.SessionID); e != nil {
		rec, _ = e.snapshot()
		if len(e.session.Status().Pending) > 0 {
			return inProgress(s.SessionID, "")
		}
	}
	if !activeAt(rec).Equal(s.active) {
		return inProgress(s.SessionID, "")
	}
	return nil
}

// plan returns the sessions that p selects, oldest activity first.
func (r Retention) plan(ctx context.Context, p RetentionPolicy, now time.Time) (Expiry, []Expired, error) {
	x := Expiry{MaxBytes: p.Bytes, Sessions: []Expired{}, IndexBytes: r.indexes()}
	if p.Age > 0 {
		x.OlderThan = p.Age.String()
	}
	recs, err := r.g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Trim: Described})
	if err != nil {
		return x, nil, storeError(err)
	}
	sizes, err := r.sizes(ctx, recs)
	if err != nil {
		return x, nil, err
	}
	busy, err := r.busy(ctx)
	if err != nil {
		return x, nil, err
	}
	for i, rec := range recs {
		if e := r.g.sessions.peek(rec.ID); e != nil {
			recs[i], _ = e.snapshot()
		}
		x.StoredBytes += sizes[rec.ID]
	}
	slices.SortStableFunc(recs, func(a, b store.Session) int { return activeAt(a).Compare(activeAt(b)) })
	var all []Expired
	for _, rec := range recs {
		if busy[rec.ID] || rec.State == event.StateLoading {
			continue
		}
		idle, reason := now.Sub(activeAt(rec)), ""
		switch {
		case p.Age > 0 && idle >= p.Age:
			reason = "age"
		case p.Bytes > 0 && x.StoredBytes-x.FreedBytes > p.Bytes && idle >= sizeGrace:
			reason = "size"
		default:
			continue
		}
		x.FreedBytes += sizes[rec.ID]
		x.Count++
		title := text.Shorten(titleOf(rec, keptOf(rec.Options).keptCare), MaxChosenTitle)
		all = append(all, Expired{
			SessionID: rec.ID, ProjectDir: rec.ProjectDir, Title: title, LastActiveAt: activeAt(rec), Bytes: sizes[rec.ID], Reason: reason, active: activeAt(rec),
		})
	}
	return x, all, nil
}

// indexes returns the size of the files that the server can make again.
func (r Retention) indexes() (size int64) {
	if r.g.cfg.Search != nil {
		size = r.g.cfg.Search.Size()
	}
	if r.g.cfg.DataDir != "" {
		if st, err := os.Stat(filepath.Join(r.g.cfg.DataDir, ConversationsFile)); err == nil {
			size += st.Size()
		}
	}
	return size
}

// activeAt returns the time of a session's last activity.
func activeAt(rec store.Session) time.Time {
	if rec.LastActiveAt.Before(rec.CreatedAt) {
		return rec.CreatedAt
	}
	return rec.LastActiveAt
}

// busy returns the sessions in which something runs or waits.
func (r Retention) busy(ctx context.Context) (map[string]bool, error) {
	busy := make(map[string]bool)
	queued, err := r.g.cfg.Catalogue.Queue(ctx, "")
	if err != nil {
		return nil, storeError(err)
	}
	for _, q := range queued {
		busy[q.Session] = true
	}
	for _, e := range r.g.sessions.all() {
		if st := e.session.Status(); st.Turn != "" || len(st.Pending) > 0 {
			busy[e.session.ID()] = true
		}
	}
	return busy, nil
}

// sizes returns the size of each session: its events, its debug capture and the
// images of its prompts.
func (r Retention) sizes(ctx context.Context, recs []store.Session) (map[string]int64, error) {
	sizes := make(map[string]int64)
	var err error
	switch log := r.g.cfg.Log.(type) {
	case store.SizeLister:
		sizes, err = log.Sizes(ctx)
	case store.Sizer:
		for _, rec := range recs {
			if sizes[rec.ID], err = log.Size(ctx, rec.ID); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, storeError(err)
	}
	for _, rec := range recs {
		if c := r.g.opener.captures.status(rec.ID, keptOf(rec.Options).keptCapture); c != nil {
			sizes[rec.ID] += c.Bytes
		}
		sizes[rec.ID] += r.g.pictures.portion(rec.ID)
	}
	return sizes, nil
}

// run applies the policy of the configuration until ctx ends.
func (r Retention) run(ctx context.Context) {
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := r.Apply(ctx, r.Policy()); err != nil && !errors.Is(err, context.Canceled) {
				r.g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the retention policy was not applied completely; the server tries again in an hour", slog.String("error", err.Error()))
			}
		case <-ctx.Done():
			return
		}
	}
}
