package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/google/uuid"
)

// A writer is the one connection that writes. It belongs to the committer's leader.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	path  string
	id    string         // of the logs
	files [2]os.FileInfo // the database and its write-ahead log, as they were first
	room  *reserve

	begin, commit, rollback              *sql.Stmt
	findLog, findOpen, addLog            *sql.Stmt
	addEvent, addTurn, addOver, overTurn *sql.Stmt
	all                                  []*sql.Stmt

	strong   bool // synchronous is FULL
	known    map[string]*position
	pages    int   // about how many the write-ahead log has gained since the last checkpoint
	truncate bool  // the next checkpoint empties the write-ahead log
	failed   error // once set nothing is written any more: the disk may hold less than was said

	// deleted says that the write-ahead log may hold what a session had that was
	// deleted. Anyone may read it.
	deleted atomic.Bool
}

const (
	// maxKnown bounds for how many sessions the writer remembers the position.
	maxKnown = 4096
	// The write-ahead log is checkpointed at idlePages when there is nothing to
	// do, and at maxPages in any case. A page is 4 KiB.
	idlePages = 1000
	maxPages  = 4000
)

func openWriter(ctx context.Context, path, vfs string, scripts []string, room *reserve) (_ *writer, err error) {
	db, err := openDB(path, vfs, writerPragmas)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, path: path, room: room, strong: true, known: make(map[string]*position)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.files[0], err = os.Lstat(path); err != nil {
		return nil, err
	}
	if w.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if err := migrate(ctx, w.conn, path, scripts); err != nil {
		return nil, err
	}
	if err := shrinkable(ctx, w.conn); err != nil {
		return nil, err
	}
	// Only now: a database that migrate refuses is left as it is.
	if err := w.useLog(ctx); err != nil {
		return nil, err
	}
	if w.id, err = identify(ctx, w.conn); err != nil {
		return nil, err
	}
	return w, w.prepare(ctx)
}

// identify returns the id of the logs. A new database and a backup get one now.
func identify(ctx context.Context, conn *sql.Conn) (id string, err error) {
	if _, err := conn.ExecContext(ctx, "UPDATE identity SET id = ? WHERE id = ''", uuid.NewString()); err != nil {
		return "", err
	}
	err = conn.QueryRowContext(ctx, "SELECT id FROM identity").Scan(&id)
	return id, err
}

// useLog has the connection write to a write-ahead log. Where that cannot be,
// SQLite may stay as it is and only say how it is.
func (w *writer) useLog(ctx context.Context) error {
	var mode string
	for range 2 {
		if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil || mode == "wal" {
			return err
		}
	}
	return fmt.Errorf("sqlite: the journal mode is %s and not wal", mode)
}

func (w *writer) prepare(ctx context.Context) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.findLog, "SELECT key, coalesce((SELECT max(seq) FROM events WHERE session = key), 0) FROM logs WHERE session = ?"},
		{&w.findOpen, "SELECT turn, key FROM turns WHERE session = ? AND end_seq IS NULL"},
		{&w.addLog, "INSERT INTO logs (session) VALUES (?)"},
		{&w.addEvent, "INSERT INTO events (session, seq, turn, type, at, payload, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&w.addTurn, `INSERT INTO turns (session, turn, after_seq) VALUES (?, ?, ?)
			ON CONFLICT (session, turn) DO UPDATE SET turn = turn RETURNING key, end_seq`},
		{&w.addOver, `INSERT INTO turns (session, turn, after_seq, end_seq) VALUES (?, ?, ?, ?)
			ON CONFLICT (session, turn) DO UPDATE SET turn = turn RETURNING key`},
		{&w.overTurn, "UPDATE turns SET end_seq = ? WHERE key = ?"},
	} {
		var err error
		if *p.stmt, err = w.conn.PrepareContext(ctx, p.text); err != nil {
			return err
		}
		w.all = append(w.all, *p.stmt)
	}
	return nil
}

// close moves everything into the database file and closes it.
func (w *writer) close() error {
	var errs []error
	// A statement of a *sql.Conn that is left open keeps the file open.
	for _, stmt := range w.all {
		errs = append(errs, stmt.Close())
	}
	if w.conn != nil {
		if w.failed == nil && len(w.all) > 0 {
			_, err := w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
			if !isFull(err) { // then it stays where it is
				errs = append(errs, err)
			}
		}
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// transact does the jobs in one transaction. A job that refuses has its err
// set and the others go on; any other error undoes them all.
func (w *writer) transact(batch []*job) error {
	if w.failed != nil {
		return w.failed
	}
	err := w.attempt(batch)
	if err == nil {
		return nil
	}
	clear(w.known) // what it says may have been undone
	return w.judge(err)
}

// judge stops the writer if err is fatal. It returns err, and that the disk is
// full if that is why.
func (w *writer) judge(err error) error {
	if w.room.full(err) {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	w.failed = fatal(err)
	return err
}

func (w *writer) attempt(batch []*job) error {
	// Not that of a caller: a transaction that has begun is seen through.
	ctx := context.Background()
	strong, pages := false, 1 // the end of the table, and for each session that of the index
	for _, j := range batch {
		strong = strong || j.strong
		pages += 1 + j.bytes>>12
	}
	if err := w.setStrength(ctx, strong); err != nil {
		return err
	}
	if err := w.inPlace(); err != nil {
		return err
	}
	if _, err := w.begin.ExecContext(ctx); err != nil {
		return err
	}
	w.pages += pages
	for _, j := range batch {
		if j.err = j.do(w); j.err != nil && !refusal(j.err) {
			return w.undo(ctx, j.err)
		}
	}
	if _, err := w.commit.ExecContext(ctx); err != nil {
		return w.undo(ctx, err)
	}
	return nil
}

// undo ends the transaction that failed with err. SQLite has undone some
// failures itself, so that the rollback has nothing to do and says so.
func (w *writer) undo(ctx context.Context, err error) error {
	_, _ = w.rollback.ExecContext(ctx)
	return err
}

// setStrength chooses what a commit waits for: FULL flushes the write-ahead
// log, NORMAL leaves it with the operating system until the next flush.
func (w *writer) setStrength(ctx context.Context, strong bool) error {
	if strong == w.strong {
		return nil
	}
	level := "NORMAL"
	if strong {
		level = "FULL"
	}
	// Not a prepared statement: SQLite acts on this one when it compiles it.
	if _, err := w.conn.ExecContext(ctx, "PRAGMA synchronous = "+level); err != nil {
		return err
	}
	w.strong = strong
	return nil
}

// inPlace fails if the database or its write-ahead log, which SQLite keeps open
// and in place, is no longer where it was: we would write into a file that
// nobody will find again.
func (w *writer) inPlace() error {
	for i, path := range []string{w.path, w.path + "-wal"} {
		now, err := os.Lstat(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errMoved, err)
		case w.files[i] == nil:
			w.files[i] = now
		case !os.SameFile(now, w.files[i]):
			return errMoved
		}
	}
	return nil
}

// worthCheckpoint reports whether enough was written for a checkpoint: less is
// enough if nobody waits.
func (w *writer) worthCheckpoint(alone bool) bool {
	return w.failed == nil && (w.pages >= maxPages || alone && (w.pages >= idlePages || w.truncate))
}

// checkpoint moves what the write-ahead log holds into the database. SQLite
// would do so within a commit, and would not tell if it failed.
func (w *writer) checkpoint() {
	ctx, text := context.Background(), "PRAGMA wal_checkpoint(PASSIVE)"
	truncate := w.truncate
	if truncate { // without waiting for readers, who may take long
		text = "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)"
		defer func() { _, _ = w.conn.ExecContext(ctx, "PRAGMA busy_timeout = 5000") }()
	}
	w.pages, w.truncate = 0, false
	var busy, pages, moved int // busy: a reader needs what is in the log
	if err := w.conn.QueryRowContext(ctx, text).Scan(&busy, &pages, &moved); err != nil {
		_ = w.judge(err) // if it is not fatal, the log only grows
		return
	}
	if truncate && busy == 0 {
		w.deleted.Store(false)
	}
}
