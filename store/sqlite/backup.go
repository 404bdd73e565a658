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

// Backup writes what the store in dir holds into a new file: everything that
// was acknowledged before the call, and of what comes meanwhile a part that is
// whole. The store may be in use, by this process or another, and goes on.
// The file is a database: as runnel.db in a directory of its own it is a store.
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
		return runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("%s is already there; choose another name", file))
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600, and SQLite writes into an empty file
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

// copyInto copies the database at path into the empty file at to, as of one
// moment. Writers do not wait for it, nor it for them; only the write-ahead log
// grows until it is done.
func copyInto(ctx context.Context, path, to string) error {
	db, err := openDB(path, "", commonPragmas)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return forgetIdentity(ctx, to)
}

// forgetIdentity has the copy at path get an id of its own when it is opened. An
// older version's has none.
func forgetIdentity(ctx context.Context, path string) error {
	db, err := openDB(path, "", commonPragmas)
	if err != nil {
		return err
	}
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'identity'").Scan(&tables)
	if err == nil && tables > 0 {
		_, err = db.ExecContext(ctx, "UPDATE identity SET id = ''")
	}
	return errors.Join(err, db.Close())
}

func backupError(file string, err error) error {
	why := runnel.Safe(unavailable(err)).Message
	switch {
	case isFull(err):
		why = "its disk is full; free some space or choose another"
	case errors.Is(err, fs.ErrNotExist):
		why = "there is no such directory; make it first"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnly):
		why = "its directory is not writable for this user; choose another"
	}
	return runnel.Fail(runnel.StoreUnavailable, fmt.Sprintf("the backup %s was not written: %s", file, why), err)
}

// Backup writes what s holds into a new file; see [Backup].
func (s *Store) Backup(ctx context.Context, file string) error {
	if s.closed() {
		return errClosed()
	}
	return Backup(ctx, filepath.Dir(s.writer.path), file)
}
