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

// A keeper tidies up behind the writer, in a goroutine of its own: it removes
// what is no longer needed and gives the space back. It writes when nobody else
// wants to, and a little at a time.
type keeper struct {
	ended   wake.Signal    // one token: a turn is over
	deleted wake.Signal    // one token: a session was deleted
	rest    time.Duration  // how many times as long as a chore took there is then a pause
	busy    chan struct{}  // holds a token while someone compacts
	damaged map[int64]bool // turns.key of those that cannot be read; of whoever holds busy
	stop    func()         // has keep return, and waits for that; nil if it does not run
}

func newKeeper() keeper {
	return keeper{ended: wake.New(), deleted: wake.New(), busy: make(chan struct{}, 1), damaged: make(map[int64]bool), rest: 4}
}

const (
	// patience bounds how long a chore waits for a moment in which nobody writes.
	patience = 10 * time.Second
	// checkAfter is how long a store must be open to be worth a check of it all.
	checkAfter = time.Minute
	// What could not be erased, because a reader needs the write-ahead log or the
	// disk is full, is tried again after erasePause, and then after twice as long
	// each time.
	erasePause    = 100 * time.Millisecond
	maxErasePause = time.Minute
	// Space is given back in steps of vacuumPages once more than sparePages and
	// one page in spareShare is free: what is free is soon used again.
	vacuumPages = 32
	sparePages  = 64
	spareShare  = 8
)

// startKeeper has keep begin with what an earlier server left.
func (s *Store) startKeeper(after time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.keep(ctx, after)
	}()
	s.keeper.stop = func() { cancel(); <-gone }
	s.keeper.ended.Send()
	s.keeper.deleted.Send()
}

// keep tidies up until ctx ends: after a turn was over for this long, and at
// once where a session was deleted.
func (s *Store) keep(ctx context.Context, after time.Duration) {
	var due <-chan time.Time   // nil unless a turn is over
	var again <-chan time.Time // nil unless something that was deleted could not be erased
	pause := erasePause
	check := time.After(checkAfter)
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-check:
			s.verify(ctx)
			continue
		case <-s.keeper.ended:
			if due == nil && after >= 0 {
				due = time.After(after)
			}
			continue
		case <-due:
			due = nil
			err = s.compactAll(ctx)
		case <-s.keeper.deleted:
			pause = erasePause
			err = s.sweep(ctx)
		case <-again:
			pause = min(2*pause, maxErasePause)
			err = s.sweep(ctx)
		}
		if err == nil {
			err = s.shrink(ctx)
		}
		if err == nil {
			_, err = s.erase(ctx)
		}
		if again = nil; s.writer.deleted.Load() {
			again = time.After(pause)
		}
		if err != nil && ctx.Err() == nil { // there will be another occasion
			s.log.Warn("the store was not tidied up", slog.Any("error", err))
		}
	}
}

// chore does something that can wait, when nobody else writes. On a full disk it
// uses the reserve: it makes room.
func (s *Store) chore(ctx context.Context, do func(*writer) error) error {
	start := time.Now()
	err := s.submitIdle(ctx, &job{closing: true, do: func(w *writer) error {
		if w.room.given { // then the write-ahead log must not grow by more than this
			w.pages += idlePages
		}
		return do(w)
	}})
	if err != nil {
		return err
	}
	select {
	case <-time.After(s.keeper.rest * time.Since(start)):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Compact does now what the store does some time after the end of a turn: it
// removes the deltas that ItemDone repeats. Nobody has to call it.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.compactAll(ctx); err != nil {
		return err
	}
	return s.shrink(ctx)
}

// compactAll compacts what is over, but for turns that cannot be read.
func (s *Store) compactAll(ctx context.Context) error {
	select {
	case s.keeper.busy <- struct{}{}:
		defer func() { <-s.keeper.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	after := int64(0)
	for {
		turns, err := s.finished(ctx, after)
		if err != nil || len(turns) == 0 {
			return err
		}
		for _, t := range turns {
			after = t.key
			if s.keeper.damaged[t.key] {
				continue
			}
			err := s.compact(ctx, t)
			if _, ok := errors.AsType[*DamageError](err); ok {
				s.keeper.damaged[t.key] = true
				continue
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) { // not found: deleted meanwhile
				return err
			}
		}
	}
}

// sweep removes the rows of deleted sessions, and then every trace of them from
// the database. The rows that say that they were deleted go last, so that the
// next server goes on with what this one did not finish.
func (s *Store) sweep(ctx context.Context) error {
	logs, err := all(ctx, s, func(r scanner) (log int64, err error) { err = r.Scan(&log); return log, err },
		"SELECT key FROM logs WHERE deleted = 1")
	if err != nil || len(logs) == 0 {
		return err
	}
	for _, log := range logs {
		for _, text := range []string{
			"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE session = ? LIMIT ?)",
			"DELETE FROM turns WHERE key IN (SELECT key FROM turns WHERE session = ? LIMIT ?)",
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

// erase empties the write-ahead log if what was deleted may still be in it. It
// reports whether nothing of that is left; a reader may be in the way.
func (s *Store) erase(ctx context.Context) (erased bool, err error) {
	deleted := &s.writer.deleted
	if !deleted.Load() {
		return true, nil
	}
	err = s.chore(ctx, func(w *writer) error { w.truncate = true; return nil })
	if err == nil { // behind the checkpoint, which follows that
		err = s.chore(ctx, func(*writer) error { return nil })
	}
	return !deleted.Load(), err
}

// deleteAll runs text until it deletes nothing more.
func (s *Store) deleteAll(ctx context.Context, text string, log int64) error {
	for n := int64(1); n > 0; {
		err := s.chore(ctx, func(w *writer) error {
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

// verify has SQLite look through everything, and logs what it finds. Damage
// to an index may hide the end of a log, which no reader can notice.
func (s *Store) verify(ctx context.Context) {
	var verdict string
	err := s.reader.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict)
	if ctx.Err() != nil || err == nil && verdict == "ok" {
		return
	}
	s.log.Error("the database is damaged; stop the server and restore a backup", slog.String("check", verdict), slog.Any("error", err))
}

// shrink gives free space back to the file system.
func (s *Store) shrink(ctx context.Context) error {
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
		if err := s.chore(ctx, func(w *writer) error { return w.vacuum(vacuumPages) }); err != nil {
			return err
		}
	}
}

// vacuum moves n pages from the end of the database into holes.
func (w *writer) vacuum(n int) error {
	// Each row that it yields is one page; closing it early stops it.
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
