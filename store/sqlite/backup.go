package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel"
)

// Backup writes a copy of the store in dir into a new file. The copy holds all
// events and records that were acknowledged before the call. It may also hold
// later ones, but never part of a transaction. This or another process may use
// the store meanwhile.
//
// In the copy, the queues of all sessions are held: see [store.Session].
//
// The file is an SQLite database. It becomes a store when it is placed as
// runnel.db in a directory of its own. Backup returns an error if the file
// exists.
func Backup(ctx context.Context, dir, file string) (err error) {
	path, err := filepath.Abs(filepath.Join(dir, "runnel.db"))
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	list, err := scripts()
	if err == nil {
		err = checkHeader(path, list)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf("there is no database in %s; name the data directory of a server", dir), err)
	}
	if err != nil {
		return openError(ctx, dir, err)
	}
	if _, err := os.Lstat(file); err == nil {
		return runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("%s already exists; choose another name", file))
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600; SQLite accepts an empty file
	if err != nil {
		return backupError(file, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	if err := copyInto(ctx, path, part.Name()); err != nil {
		part.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return backupError(file, err)
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return backupError(file, err)
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return backupError(file, err)
	}
	return syncDir(filepath.Dir(file))
}

// copyInto writes a snapshot of the database at path into the empty file at to.
// The copy and concurrent writers do not wait for each other. The write-ahead
// log grows until the copy is complete.
func copyInto(ctx context.Context, path, to string) error {
	// Read the journal before the database: events that leave the journal in
	// between are in the database when it is read.
	journal, err := os.ReadFile(journalPath(filepath.Dir(path)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openDB(path, "", commonPragmas)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if len(journal) > 0 {
		if err := restoreInto(ctx, to, journal); err != nil {
			return err
		}
	}
	return detach(ctx, to)
}

// restoreInto appends those events of a journal that the copy at path lacks. It
// first upgrades the copy to this version's schema.
func restoreInto(ctx context.Context, path string, journal []byte) error {
	db, err := openDB(path, "", commonPragmas)
	if err != nil {
		return err
	}
	w := &writer{db: db, path: path, known: make(map[string]*position)}
	list, err := scripts()
	if err == nil {
		w.conn, err = db.Conn(ctx)
	}
	if err == nil {
		err = migrate(ctx, w.conn, path, list)
	}
	if err == nil {
		err = w.prepare(ctx)
	}
	if err == nil {
		err = w.conn.QueryRowContext(ctx, "SELECT id FROM identity").Scan(&w.id)
	}
	if err == nil {
		evs, _ := readJournal(w.id, journal)
		_, err = w.begin.ExecContext(ctx)
		if err == nil {
			err = w.restore(evs)
		}
		if err == nil {
			_, err = w.commit.ExecContext(ctx)
		}
	}
	return errors.Join(err, w.close())
}

// detach clears the log id of the copy at path, so that opening the copy assigns
// a new id. It also holds the queues of the copy: the server of the original may
// have run their prompts by the time at which a server runs on the copy. A
// database of an older schema version may have no id, and queues that cannot be
// held.
func detach(ctx context.Context, path string) error {
	db, err := openDB(path, "", commonPragmas)
	if err != nil {
		return err
	}
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'identity'").Scan(&tables)
	if err == nil && tables > 0 {
		_, err = db.ExecContext(ctx, "UPDATE identity SET id = ''")
	}
	held := 0
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'queue_held'").Scan(&held)
	}
	if err == nil && held > 0 {
		_, err = db.ExecContext(ctx, "UPDATE sessions SET queue_held = 1 WHERE id IN (SELECT session FROM queue)")
	}
	return errors.Join(err, db.Close())
}

func backupError(file string, err error) error {
	why := runnel.Safe(unavailable(err)).Message
	switch {
	case isFull(err):
		why = "its disk is full; free some space or choose another"
	case errors.Is(err, fs.ErrNotExist):
		why = "the directory does not exist; create it first"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnly):
		why = "this user cannot write to the directory; choose another"
	}
	return runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf("the backup %s was not written: %s", file, why), err)
}

// Backup writes a copy of s into a new file; see the function [Backup].
func (s *Store) Backup(ctx context.Context, file string) error {
	if s.closed() {
		return errClosed()
	}
	return Backup(ctx, filepath.Dir(s.writer.path), file)
}
