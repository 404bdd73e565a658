package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// A keeper runs background maintenance in a goroutine of its own: it removes
// data that is no longer needed and returns free space to the file system. It
// writes in small steps when no other job is running.
type keeper struct {
	ended       wake.Signal    // holds a token after a turn has ended
	deleted     wake.Signal    // holds a token after a session was deleted
	pauseFactor time.Duration  // the pause after a step, as a multiple of the step's duration
	busy        chan struct{}  // holds a token while a goroutine compacts
	damaged     map[int64]bool // turns.key of turns that cannot be read; guarded by busy
	stop        func()         // stops maintainLoop and waits until it has returned; nil if it does not run
}

func newKeeper() keeper {
	return keeper{ended: wake.New(), deleted: wake.New(), busy: make(chan struct{}, 1), damaged: make(map[int64]bool), pauseFactor: 4}
}

const (
	// idleTimeout bounds how long a maintenance step waits until no other job
	// is running.
	idleTimeout = 10 * time.Second
	// checkAfter is the time from opening the store to its integrity check.
	checkAfter = time.Minute
	// erase fails while a reader needs the write-ahead log or the disk is full.
	// maintainLoop retries after erasePause and doubles the pause each time, up
	// to maxErasePause.
	erasePause    = 100 * time.Millisecond
	maxErasePause = time.Minute
	// foldAfter is the time from the first event in the journal until a
	// transaction inserts all events that the journal has by then.
	foldAfter = time.Second
	// shrink returns free pages to the file system, vacuumPages at a time. It
	// starts when more than sparePages and more than 1/spareShare of all pages
	// are free. A smaller number of free pages is soon used again.
	vacuumPages = 32
	sparePages  = 64
	spareShare  = 8
)

// startKeeper starts the maintenance goroutine. It first finishes the work that
// an earlier server left.
func (s *Store) startKeeper(after time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.maintainLoop(ctx, after)
	}()
	s.keeper.stop = func() { cancel(); <-gone }
	s.keeper.ended.Send()
	s.keeper.deleted.Send()
}

// maintainLoop runs maintenance until ctx ends. It compacts turns some time
// (after) after they end, or never if after is negative. It sweeps deleted
// sessions at once.
func (s *Store) maintainLoop(ctx context.Context, after time.Duration) {
	var due <-chan time.Time   // nil unless a turn has ended
	var again <-chan time.Time // nil unless deleted data still has to be erased
	var fold <-chan time.Time  // nil unless the journal may have events
	var retry time.Time        // when again fires; zero if it is nil
	pause := erasePause
	check := time.After(checkAfter)
	// urgent reports whether deleted data can be erased now. Compacting turns and
	// returning free space can take minutes, so both stop when it is true.
	urgent := func() bool {
		return len(s.keeper.deleted) > 0 || !retry.IsZero() && !time.Now().Before(retry)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-check:
			s.verify(ctx)
			continue
		case <-s.writer.journal.begun:
			if fold == nil {
				fold = time.After(foldAfter)
			}
			continue
		case <-fold:
			fold = nil
			if err := s.submit(ctx, &job{}); err != nil && ctx.Err() == nil { // the next transaction tries again
				s.log.Warn("events that are in the journal did not get into the database", slog.Any("error", err))
			}
			continue
		case <-s.keeper.ended:
			if due == nil && after >= 0 {
				due = time.After(after)
			}
			continue
		case <-due:
			due = nil
			var rest bool
			if rest, err = s.compactUntil(ctx, urgent); rest {
				due = time.After(0)
			}
		case <-s.keeper.deleted:
			pause = erasePause
			err = s.sweep(ctx)
		case <-again:
			pause = min(2*pause, maxErasePause)
			err = s.sweep(ctx)
		}
		if err == nil {
			_, err = s.erase(ctx)
		}
		if again, retry = nil, (time.Time{}); s.writer.deleted.Load() {
			again, retry = time.After(pause), time.Now().Add(pause)
		}
		if err == nil {
			err = s.shrinkUntil(ctx, urgent)
		}
		if err != nil && ctx.Err() == nil { // the next event retries
			s.log.Warn("store maintenance failed; it will be retried", slog.Any("error", err))
		}
	}
}

// chore runs do as a job when no other job is running, and then pauses. On a
// full disk it may use the reserve, because maintenance frees space.
func (s *Store) chore(ctx context.Context, do func(*writer) error) error {
	start := time.Now()
	err := s.submitIdle(ctx, &job{closing: true, do: func(w *writer) error {
		if w.room.given { // limits how far the write-ahead log grows before the next checkpoint
			w.pages += idlePages
		}
		return do(w)
	}})
	if err != nil {
		return err
	}
	select {
	case <-time.After(s.keeper.pauseFactor * time.Since(start)):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Compact removes the deltas that ItemDone repeats from all turns that have
// ended. The store does this by itself after Config.CompactAfter, so calling
// Compact is optional.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.compactAll(ctx); err != nil {
		return err
	}
	return s.shrink(ctx)
}

// compactAll compacts all finished turns and skips those that cannot be read.
func (s *Store) compactAll(ctx context.Context) error {
	_, err := s.compactUntil(ctx, never)
	return err
}

func never() bool { return false }

// compactUntil is compactAll, but returns after a turn if stop then returns
// true. rest reports that turns may be left.
func (s *Store) compactUntil(ctx context.Context, stop func() bool) (rest bool, err error) {
	select {
	case s.keeper.busy <- struct{}{}:
		defer func() { <-s.keeper.busy }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	after := int64(0)
	for {
		turns, err := s.finished(ctx, after)
		if err != nil || len(turns) == 0 {
			return false, err
		}
		for i, t := range turns {
			if (after > 0 || i > 0) && stop() {
				return true, nil
			}
			after = t.key
			if s.keeper.damaged[t.key] {
				continue
			}
			err := s.compact(ctx, t)
			if _, ok := errors.AsType[*DamageError](err); ok {
				s.keeper.damaged[t.key] = true
				continue
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) { // the session was deleted meanwhile
				return false, err
			}
		}
	}
}

// sweep removes the rows of deleted sessions and then all remaining copies of
// them in the database. It removes the rows of logs, which mark the deletion,
// last. After a crash the next server can therefore finish the work.
func (s *Store) sweep(ctx context.Context) error {
	logs, err := all(ctx, s, func(r scanner) (log int64, err error) { err = r.Scan(&log); return log, err },
		"SELECT key FROM logs WHERE deleted = 1")
	if err != nil || len(logs) == 0 {
		return err
	}
	for _, log := range logs {
		for _, text := range []string{
			"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE session = ? LIMIT ?)",
			"DELETE FROM usage WHERE turn IN (SELECT turn FROM usage WHERE session = ? LIMIT ?)",
			"DELETE FROM turns WHERE key IN (SELECT key FROM turns WHERE session = ? LIMIT ?)",
			"DELETE FROM checkpoints WHERE rowid IN (SELECT rowid FROM checkpoints WHERE session = ? LIMIT ?)",
			"DELETE FROM gaps WHERE (session, last) IN (SELECT session, last FROM gaps WHERE session = ? LIMIT ?)",
		} {
			if err := s.deleteAll(ctx, text, log); err != nil {
				return err
			}
		}
	}
	if err := s.scrub(ctx); err != nil {
		return err
	}
	for _, log := range logs {
		if err := s.deleteAll(ctx, "DELETE FROM logs WHERE key = ? AND deleted = 1 AND 0 < ?", log); err != nil {
			return err
		}
	}
	return nil
}

// deletionTime bounds how long Close removes deleted sessions. The next store
// that opens the directory removes the rest.
const deletionTime = 3 * time.Second

// finishDeletions removes the rows of deleted sessions, without pauses. The
// keeper has been stopped. The caller empties the journal and the write-ahead
// log.
func (s *Store) finishDeletions() {
	ctx, cancel := context.WithTimeout(context.Background(), deletionTime)
	defer cancel()
	s.keeper.pauseFactor = 0
	if err := s.sweep(ctx); err != nil {
		s.log.Warn("deleted sessions could not be removed completely; the next start continues", slog.Any("error", err))
	}
}

// erase truncates the write-ahead log if it may still hold deleted data. erased
// is false if such data is left, for example because a reader needs the log.
func (s *Store) erase(ctx context.Context) (erased bool, err error) {
	deleted := &s.writer.deleted
	if !deleted.Load() {
		return true, nil
	}
	err = s.chore(ctx, func(w *writer) error { w.truncate = true; return nil })
	if err == nil { // this job starts after the checkpoint of the previous one
		err = s.chore(ctx, func(*writer) error { return nil })
	}
	return !deleted.Load(), err
}

// deleteAll runs text until it deletes no more rows.
func (s *Store) deleteAll(ctx context.Context, text string, log int64) error {
	for n := int64(1); n > 0; {
		err := s.chore(ctx, func(w *writer) error {
			w.deleted.Store(true) // a checkpoint since the deletion may have copied the rows into the database file
			res, err := w.conn.ExecContext(context.Background(), text, log, sliceEvents)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// verify runs SQLite's integrity check and logs its result if it fails. A
// damaged index may hide the end of a log, which readers cannot detect.
func (s *Store) verify(ctx context.Context) {
	var verdict string
	err := s.reader.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict)
	if ctx.Err() != nil || err == nil && verdict == "ok" {
		return
	}
	s.log.Error("the database is damaged; stop the server and restore a backup", slog.String("check", verdict), slog.Any("error", err))
}

// shrink returns free space to the file system.
func (s *Store) shrink(ctx context.Context) error { return s.shrinkUntil(ctx, never) }

// shrinkUntil is shrink, but returns after a step if stop then returns true.
func (s *Store) shrinkUntil(ctx context.Context, stop func() bool) error {
	before := int64(-1)
	for {
		var free, pages int64
		err := errors.Join(
			s.reader.db.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free),
			s.reader.db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages),
		)
		if err != nil {
			return s.readError(ctx, err)
		}
		if free <= max(sparePages, pages/spareShare) || free == before {
			if before < 0 {
				return nil
			}
			return s.chore(ctx, func(w *writer) error { w.truncate = true; return nil })
		}
		before = free
		if err := s.chore(ctx, func(w *writer) error { return w.vacuum(vacuumPages) }); err != nil || stop() {
			return err
		}
	}
}

// vacuum moves up to n pages from the end of the database into free pages.
func (w *writer) vacuum(n int) error {
	// Each row of the result stands for one page. Closing the rows early would
	// stop the vacuum.
	rows, err := w.conn.QueryContext(context.Background(), fmt.Sprintf("PRAGMA incremental_vacuum(%d)", n))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	w.pages += 2 * n
	return rows.Err()
}
