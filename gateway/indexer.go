package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// An indexer adds the finished items of all sessions to the search index. It
// reads the log behind the sessions, so no session waits for it. The index has
// the position up to which it has each session, so the indexer adds every item
// once, also after a crash.
type indexer struct {
	index     store.SearchIndex
	catalogue store.Catalogue
	log       runnel.Log
	feed      *feed
	dir       string // the data directory; "" if unknown
	ctx       context.Context
	logger    *slog.Logger
	working   func() bool // whether a session has a turn
	natives   bool        // the index also has conversations that are no sessions; natives adds them

	behind atomic.Bool // sessions that changed before the start may be missing from the index

	// The rest belongs to the goroutine that calls run.
	at      map[string]int64    // position up to which the index has each session
	read    map[string]int64    // position up to which the log was read, if that is later
	changed map[string]struct{} // sessions that changed since the start
	backlog []string            // sessions that changed before the start
	deleted map[string]struct{} // sessions in the index that the catalogue lacks
	version int64               // of the feed
}

const (
	// indexDelay is how long the indexer waits after a change, because more
	// changes may follow.
	indexDelay = 500 * time.Millisecond
	// After an error the indexer tries again after indexRetry, and doubles the
	// pause each time up to maxIndexRetry.
	indexRetry    = time.Second
	maxIndexRetry = time.Minute
	// The bounds of what one transaction adds.
	indexEvents = 5000
	indexItems  = 100
	indexBytes  = 512 << 10
	// The indexer pauses this many times as long as it worked. While a session
	// has a turn, the indexer takes at most a twentieth of the time.
	idleShare = 0.25
	turnShare = 19.0
)

// startIndexer starts the indexer if there is an index.
func (g *Gateway) startIndexer() {
	if g.cfg.Search == nil {
		return
	}
	g.indexer = &indexer{
		index: g.cfg.Search, catalogue: g.cfg.Catalogue, log: g.cfg.Log, feed: g.feed,
		dir: g.cfg.DataDir, ctx: g.ctx, logger: g.cfg.Logger, version: -1, working: g.sessions.working, natives: g.stored != nil,
	}
	g.indexer.behind.Store(true)
	g.work.Go(g.indexer.run)
	g.startNatives()
}

// run indexes until the context ends.
func (x *indexer) run() {
	retry := indexRetry
	for x.ctx.Err() == nil {
		err := x.round()
		if err != nil {
			x.failed(err, retry)
			x.pause(retry)
			retry = min(2*retry, maxIndexRetry)
			continue
		}
		retry = indexRetry
		if len(x.backlog) > 0 {
			continue
		}
		if len(x.changed) == 0 { // else catchUp has noted changes
			select {
			case <-x.feed.changed(x.version):
			case <-x.ctx.Done():
			}
		}
		x.pause(indexDelay)
	}
}

func (x *indexer) failed(err error, retry time.Duration) {
	if x.ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug // reported before
	if retry == indexRetry {
		level = slog.LevelWarn
	}
	x.logger.Log(x.ctx, level, "the search index is not up to date; the server tries again", slog.Any("error", err))
	if errors.Is(err, store.ErrConflict) {
		x.at = nil // the index was made again
	}
}

// round indexes the sessions that have changed, and then one session of the
// backlog.
func (x *indexer) round() error {
	if x.at == nil {
		if err := x.compare(); err != nil {
			return err
		}
	}
	if err := x.catchUp(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(x.changed)) { // newer sessions have greater ids, and come first in results
		delete(x.changed, id) // before the update, which adds it again if it changes meanwhile
		if err := x.update(id, false); err != nil {
			x.changed[id] = struct{}{}
			return err
		}
	}
	if n := len(x.backlog); n > 0 {
		if err := x.update(x.backlog[n-1], true); err != nil {
			return err
		}
		x.backlog = x.backlog[:n-1]
	}
	if len(x.backlog) == 0 {
		x.behind.Store(false)
	}
	return x.forget()
}

// catchUp notes the sessions that have changed since the last call, and removes
// those from the index that were deleted. It is called after each batch: the
// texts of a deleted session must not stay until long sessions are indexed.
func (x *indexer) catchUp() error {
	ids, version := x.feed.changesAfter(x.version)
	for _, id := range ids {
		x.changed[id] = struct{}{}
		if _, indexed := x.at[id]; !indexed {
			continue
		}
		_, err := x.catalogue.Session(x.ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			x.deleted[id] = struct{}{}
		} else if err != nil {
			return err
		}
	}
	x.version = version
	return x.forget()
}

// compare compares the index with the log.
func (x *indexer) compare() error {
	x.behind.Store(true)
	_, version := x.feed.changesAfter(-1) // before the log is read
	at, err := x.index.Indexed(x.ctx)
	if err != nil {
		return err
	}
	recs, err := x.catalogue.Sessions(x.ctx, store.SessionFilter{Dead: true, Trim: Described}) // newest first
	if err != nil {
		return err
	}
	var heads map[string]int64
	if log, ok := x.log.(store.HeadLister); ok {
		if heads, err = log.Heads(x.ctx); err != nil {
			return err
		}
	}
	x.at, x.read, x.version, x.backlog = make(map[string]int64), make(map[string]int64), version, nil
	x.changed, x.deleted = make(map[string]struct{}), make(map[string]struct{})
	for id, p := range at {
		if x.natives && isNative(id) {
			continue
		}
		x.at[id] = p.Seq
		x.deleted[id] = struct{}{}
	}
	for _, rec := range slices.Backward(recs) { // round takes the last one first
		delete(x.deleted, rec.ID)
		if heads == nil || heads[rec.ID] > x.at[rec.ID] {
			x.backlog = append(x.backlog, rec.ID)
		}
	}
	return nil
}

// forget removes the deleted sessions from the index.
func (x *indexer) forget() error {
	if len(x.deleted) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(x.deleted))
	if err := x.index.Forget(x.ctx, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		delete(x.at, id)
		delete(x.read, id)
	}
	clear(x.deleted)
	return nil
}

// errGone means that the session was deleted while it was being indexed.
var errGone = errors.New("the session was deleted")

// errNearlyFull means that the index may not use the rest of the disk.
var errNearlyFull = errors.New("the disk has less than 64 MiB of free space")

// update adds the items of a session that the index lacks. Events without items
// move the position in the index only at the end of a turn, or if final is set.
func (x *indexer) update(id string, final bool) error {
	rec, err := x.catalogue.Session(x.ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		x.deleted[id] = struct{}{}
		return nil
	}
	if err != nil {
		return err
	}
	if x.dir != "" && diskFull(x.dir) {
		return errNearlyFull
	}
	b := batch{x: x, s: store.SearchSession{ID: id, CLIType: rec.CLIType, ProjectID: projectID(rec.ProjectDir)}, at: x.at[id], started: time.Now()}
	last := max(x.at[id], x.read[id])
	for ev, err := range x.log.Read(x.ctx, id, last) {
		if err != nil {
			return err
		}
		last, final = ev.Seq, final || event.Ends(ev.Body)
		if err = b.take(ev); errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if len(b.items) > 0 || final && last > b.at {
		if err := b.flush(last); !errors.Is(err, errGone) {
			return err
		}
		return nil
	}
	x.read[id] = last
	x.rest(time.Since(b.started))
	return nil
}

// A batch is what the next transaction adds to the index.
type batch struct {
	x       *indexer
	s       store.SearchSession
	at      int64 // position up to which the index has the session
	items   []store.SearchItem
	events  int
	bytes   int
	started time.Time // of the work since the last pause
}

// take adds the items of an event. It writes a full batch, and then pauses.
func (b *batch) take(ev event.Event) error {
	b.events++
	for _, it := range searchItems(ev) {
		b.items, b.bytes = append(b.items, it), b.bytes+len(it.Text)
	}
	if b.events >= indexEvents || len(b.items) >= indexItems || b.bytes >= indexBytes {
		return b.flush(ev.Seq)
	}
	return nil
}

// flush writes the batch, and pauses.
func (b *batch) flush(seq int64) error {
	if err := b.x.index.AddItems(b.x.ctx, b.s, b.at, seq, b.items...); err != nil {
		return err
	}
	b.x.at[b.s.ID] = seq
	b.at, b.items, b.events, b.bytes = seq, nil, 0, 0
	b.x.rest(time.Since(b.started))
	if err := b.x.catchUp(); err != nil {
		return err
	}
	if _, indexed := b.x.at[b.s.ID]; !indexed {
		return errGone
	}
	b.started = time.Now()
	return nil
}

// rest pauses after work that took d.
func (x *indexer) rest(d time.Duration) {
	share := idleShare
	if x.working() {
		share = turnShare
	}
	x.pause(time.Duration(share * float64(d)))
}

func (x *indexer) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-x.ctx.Done():
	}
}
