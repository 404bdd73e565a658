package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// A writer owns the only connection that writes to the database. Only the
// leader uses it; see [committer].
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	path  string
	id    string // the log id, see LogID
	files paths
	room  *reserve

	journal  *journal
	inserted func() // is called after a commit that inserted the events of the journal

	begin, commit, rollback              *sql.Stmt
	findLog, findOpen, addLog            *sql.Stmt
	addEvent, addTurn, addOver, overTurn *sql.Stmt
	addEvents                            *sql.Stmt // see insertAll
	all                                  []*sql.Stmt

	args     []any // buffer of insert
	strong   bool  // synchronous is FULL, else NORMAL
	known    map[string]*position
	pages    int   // approximate pages added to the write-ahead log since the last checkpoint
	truncate bool  // the next checkpoint empties the write-ahead log
	failed   error // if set, all writes fail: the disk may lack data that was acknowledged

	// deleted reports whether the write-ahead log may still hold data of a
	// deleted session. Any goroutine may read it.
	deleted atomic.Bool
}

const (
	// maxKnown bounds the number of cached positions.
	maxKnown = 4096
	// The write-ahead log is checkpointed at idlePages when no job waits, and
	// at maxPages in any case. A page has 4 KiB.
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
	// The path of the directory ends with a dot, because the directory may be a
	// link.
	if w.files.dir, err = placeOf(filepath.Dir(path) + "/."); err != nil {
		return nil, err
	}
	if err := w.files.add(path); err != nil {
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
	// WAL mode changes the file, so it is set only after migrate has accepted
	// the database.
	if err := w.useLog(ctx); err != nil {
		return nil, err
	}
	if w.id, err = identify(ctx, w.conn); err != nil {
		return nil, err
	}
	if err := w.files.add(path + "-wal"); err != nil {
		return nil, err
	}
	return w, w.prepare(ctx)
}

// useLog switches the connection to a write-ahead log. If that is impossible,
// SQLite may keep its mode and only return its name.
func (w *writer) useLog(ctx context.Context) error {
	var mode string
	for range 2 {
		if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil || mode == "wal" {
			return err
		}
	}
	return fmt.Errorf("sqlite: the journal mode is %s, want wal", mode)
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
		{&w.addEvent, insertEvents(1)},
		{&w.addEvents, insertEvents(foldAtOnce)},
		{&w.addTurn, `INSERT INTO turns (session, turn, after_seq) VALUES (?, ?, ?)
			ON CONFLICT (session, turn) DO UPDATE SET turn = turn RETURNING key, end_seq`},
		{&w.addOver, `INSERT INTO turns (session, turn, after_seq, end_seq, clean) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (session, turn) DO UPDATE SET turn = turn RETURNING key`},
		{&w.overTurn, "UPDATE turns SET end_seq = ?, clean = ? WHERE key = ?"},
	} {
		var err error
		if *p.stmt, err = w.conn.PrepareContext(ctx, p.text); err != nil {
			return err
		}
		w.all = append(w.all, *p.stmt)
	}
	return nil
}

// close inserts the events of the journal, copies the write-ahead log into the
// database file and closes the connection. On a full disk the data stays where
// it is.
func (w *writer) close() error {
	errs := []error{w.closeJournal()}
	w.unclaim()
	// An open statement of a *sql.Conn keeps the file open.
	for _, stmt := range w.all {
		errs = append(errs, stmt.Close())
	}
	if w.conn != nil {
		if w.failed == nil && len(w.all) > 0 {
			_, err := w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
			if !isFull(err) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// transact runs the jobs in one transaction. If a job returns a refusal, its
// err is the refusal, and the other jobs continue. Any other error rolls back
// all jobs.
func (w *writer) transact(batch []*job) error {
	if w.failed != nil {
		return w.failed
	}
	err := w.attempt(batch)
	if err == nil {
		return nil
	}
	clear(w.known) // the cached positions may include events that were rolled back
	return w.judge(err)
}

// judge stops the writer if err is fatal. It returns err, wrapped in errFull if
// the disk is full.
func (w *writer) judge(err error) error {
	if w.room.full(err) {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	w.failed = fatal(err)
	return err
}

func (w *writer) attempt(batch []*job) error {
	// Not a caller's context: a transaction that has begun always completes.
	ctx := context.Background()
	strong, pages := false, 1 // one page for the table, and one per session for the index
	if !w.journal.empty() {
		pages += len(w.journal.pending)>>4 + int(w.journal.size>>12)
	}
	for _, j := range batch {
		strong = strong || j.strong
		pages += 1 + j.bytes>>12
	}
	if err := w.setStrength(ctx, strong); err != nil {
		return err
	}
	if err := w.files.check(); err != nil {
		return err
	}
	if _, err := w.begin.ExecContext(ctx); err != nil {
		return err
	}
	w.pages += pages
	if err := w.fold(); err != nil {
		return w.undo(ctx, err)
	}
	for _, j := range batch {
		if j.do == nil {
			continue
		}
		if j.err = j.do(w); j.err != nil && !refusal(j.err) {
			return w.undo(ctx, j.err)
		}
	}
	if _, err := w.commit.ExecContext(ctx); err != nil {
		return w.undo(ctx, err)
	}
	w.failed = w.folded()
	return nil
}

// undo rolls back the transaction that failed with err, and returns err. After
// some failures SQLite has already rolled back; the error of ROLLBACK is then
// expected.
func (w *writer) undo(ctx context.Context, err error) error {
	_, _ = w.rollback.ExecContext(ctx)
	return err
}

// setStrength sets what a commit waits for. FULL flushes the write-ahead log.
// NORMAL leaves the data to the operating system until the next flush.
func (w *writer) setStrength(ctx context.Context, strong bool) error {
	if strong == w.strong {
		return nil
	}
	level := "NORMAL"
	if strong {
		level = "FULL"
	}
	// Not a prepared statement: SQLite executes this pragma when it compiles
	// it.
	if _, err := w.conn.ExecContext(ctx, "PRAGMA synchronous = "+level); err != nil {
		return err
	}
	w.strong = strong
	return nil
}

// worthCheckpoint reports whether a checkpoint is due. Fewer pages suffice if
// no job waits. A checkpoint is due only if all events of the journal are in
// the database, because it may wipe the journal.
func (w *writer) worthCheckpoint(alone bool) bool {
	return w.failed == nil && w.journal.empty() && (w.pages >= maxPages || alone && (w.pages >= idlePages || w.truncate))
}

// checkpoint copies the write-ahead log into the database. SQLite's automatic
// checkpoint runs within a commit and does not report its errors.
func (w *writer) checkpoint() {
	ctx, text := context.Background(), "PRAGMA wal_checkpoint(PASSIVE)"
	truncate := w.truncate
	if truncate { // without waiting for readers, which may take long
		text = "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)"
		defer func() { _, _ = w.conn.ExecContext(ctx, "PRAGMA busy_timeout = 5000") }()
	}
	w.pages, w.truncate = 0, false
	var busy, pages, moved int // busy is 1 if a reader prevented the checkpoint from finishing
	if err := w.conn.QueryRowContext(ctx, text).Scan(&busy, &pages, &moved); err != nil {
		_ = w.judge(err) // if the error is not fatal, the log only grows
		return
	}
	if truncate && busy == 0 && w.journal.wipe() == nil { // else the keeper tries again
		w.deleted.Store(false)
	}
}
