package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel"
)

const (
	forgetItems = 32  // items that one transaction removes
	mergePages  = 256 // pages of the full-text index that one transaction writes
	scrubbed    = 256 // pages that one transaction scrubs
)

// Forget implements [store.SearchIndex]. It removes the sessions from the table
// sessions last, under other names. After a crash Indexed therefore returns
// names that no session has, and the caller forgets these.
func (x *SearchIndex) Forget(ctx context.Context, sessions ...string) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	var keys []int64
	err := x.write(ctx, func(tx *sql.Tx) error {
		for _, id := range sessions {
			var key int64
			err := tx.QueryRowContext(ctx, "UPDATE sessions SET session = 'deleted ' || hex(randomblob(16)) WHERE session = ? RETURNING key", id).Scan(&key)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	for _, key := range keys {
		if err := x.removeItems(ctx, key); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{x.merge, x.scrub, x.vacuum, x.truncate} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return x.write(ctx, func(tx *sql.Tx) error {
		for _, key := range keys {
			if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE key = ?", key); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeItems removes the items of a session.
func (x *SearchIndex) removeItems(ctx context.Context, session int64) error {
	for more := true; more; {
		start := time.Now()
		err := x.write(ctx, func(tx *sql.Tx) error {
			var n int64
			for i, text := range []string{
				"DELETE FROM texts WHERE rowid IN (SELECT id FROM items WHERE session = ? ORDER BY id LIMIT ?)",
				"DELETE FROM items WHERE id IN (SELECT id FROM items WHERE session = ? ORDER BY id LIMIT ?)",
			} {
				res, err := tx.ExecContext(ctx, text, session, forgetItems)
				if err != nil {
					return err
				}
				if i == 1 {
					if n, err = res.RowsAffected(); err != nil {
						return err
					}
				}
			}
			more = n > 0
			return nil
		})
		if err == nil {
			err = rest(ctx, time.Since(start))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// merge writes the full-text index again, without the words of deleted items. A
// deletion by itself only marks them as deleted, and FTS5's secure-delete would
// keep the beginnings of some words.
func (x *SearchIndex) merge(ctx context.Context) error {
	for step := -mergePages; ; step = mergePages { // a negative number begins
		start := time.Now()
		var before, after int
		err := x.write(ctx, func(tx *sql.Tx) error {
			const changes = "SELECT total_changes()"
			if err := tx.QueryRowContext(ctx, changes).Scan(&before); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO texts (texts, rank) VALUES ('merge', ?)", step); err != nil {
				return err
			}
			return tx.QueryRowContext(ctx, changes).Scan(&after)
		})
		if err != nil {
			return err
		}
		if after-before < 2 { // as FTS5 documents the end of a merge
			return nil
		}
		if err := rest(ctx, time.Since(start)); err != nil {
			return err
		}
	}
}

// scrub overwrites the gaps of all pages; see scrub.go.
func (x *SearchIndex) scrub(ctx context.Context) error {
	var pages, size int
	err := x.read(ctx, func(db *sql.DB) error {
		return errors.Join(
			db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages),
			db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size),
		)
	})
	if err != nil {
		return err
	}
	if pages >= maxScrubbed {
		return fmt.Errorf("the search index has %d pages, too many to scrub", pages)
	}
	for from := 1; from <= pages; from += scrubbed {
		start := time.Now()
		err := x.write(ctx, func(tx *sql.Tx) error {
			for number := from; number < min(from+scrubbed, pages+1); number++ {
				if pointerMap(number, size) || number == pendingByte/size+1 {
					continue
				}
				page, err := readPage(tx.QueryRowContext(ctx, selectPage, number))
				if err != nil {
					return err
				}
				free := gap(page, number)
				if zero(free) {
					continue
				}
				clear(free)
				if _, err := tx.ExecContext(ctx, "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?", page, number); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = rest(ctx, time.Since(start))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// vacuum returns free pages to the file system.
func (x *SearchIndex) vacuum(ctx context.Context) error {
	for free := 1; free > 0; {
		err := x.write(ctx, func(tx *sql.Tx) error {
			rows, err := tx.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", scrubbed))
			if err != nil {
				return err
			}
			for rows.Next() { // each row of the result stands for one page
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
			return tx.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// truncate copies the write-ahead log into the database and empties it.
func (x *SearchIndex) truncate(ctx context.Context) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.writer == nil {
		return errClosed()
	}
	var busy, pages, moved int
	for pause := time.Millisecond; ; pause *= 2 {
		err := x.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
		if err != nil {
			return searchError(ctx, err)
		}
		if busy == 0 {
			return nil
		}
		if pause > time.Second {
			return runnel.Fail(runnel.StoreUnavailable, "the search index is being read; its deleted texts remain until the next try")
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// rest waits, so that work in the background leaves time for other work.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
