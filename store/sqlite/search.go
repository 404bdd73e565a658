package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/runnel-dev/runnel/store"
)

// A SearchIndex is a [store.SearchIndex] in a database of its own beside that
// of the store. It belongs to one log. Nothing in it is unique: a damaged index
// is deleted and made again from the log.
type SearchIndex struct {
	path string
	id   string // the log id
	log  *slog.Logger

	writing sync.Mutex   // held by the only transaction that writes
	mu      sync.RWMutex // held for writing while the databases are replaced
	writer  *sql.DB      // at most one connection
	reader  *sql.DB

	full map[int64]int64 // see freeID; belongs to the transaction that writes
}

var _ store.SearchIndex = (*SearchIndex)(nil)

// searchFile is the name of the index in the data directory.
const searchFile = "search.db"

// searchVersion is the version of searchSchema and of the texts in the index.
// An index of another version is made again.
const searchVersion = 2

//go:embed search.sql
var searchSchema string

var (
	searchWriterPragmas = append([]string{
		"synchronous(NORMAL)", // a power loss may undo the newest items, together with their positions
		secureDelete,
		"cache_size(-8192)", // KiB
		"wal_autocheckpoint(1000)",
		"journal_size_limit(16777216)",
	}, commonPragmas...)
	searchReaderPragmas = append([]string{
		"query_only(ON)",
		"cache_size(-4096)",
	}, commonPragmas...)
)

// OpenSearch opens the search index in the data directory dir, which a Store
// has opened, for the log with an id. It creates a missing index. It empties an
// index that is damaged, or that belongs to another log or another version of
// Runnel. Log receives reports of that; nil discards them.
func OpenSearch(ctx context.Context, dir, id string, log *slog.Logger) (*SearchIndex, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(filepath.Join(dir, searchFile))
	if err != nil {
		return nil, err
	}
	x := &SearchIndex{path: path, id: id, log: log}
	if err = x.open(ctx); err == nil {
		return x, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errOtherIndex):
		log.Info("the search index is made again", slog.Any("reason", err))
	case corrupt(err), code(err) == sqlite3.SQLITE_ERROR: // such as a missing table
		log.Warn("the search index is damaged; it is made again", slog.Any("error", err))
	default:
		return nil, unavailable(err)
	}
	if err = x.recreate(ctx); err != nil {
		return nil, errors.Join(unavailable(err), x.Close())
	}
	return x, nil
}

// errOtherIndex means that the index has to be made again.
var errOtherIndex = errors.New("the search index belongs to another log or version")

// open opens the existing index. x.mu is held, or nobody uses x yet.
func (x *SearchIndex) open(ctx context.Context) (err error) {
	switch info, err := os.Lstat(x.path); {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() == 0:
		return errOtherIndex
	}
	defer func() {
		if err != nil {
			_ = x.closeDatabases()
		}
	}()
	if x.writer, err = openDB(x.path, "", searchWriterPragmas); err != nil {
		return err
	}
	x.writer.SetMaxOpenConns(1)
	var version int
	if err := x.writer.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != searchVersion {
		return errOtherIndex
	}
	var id string
	if err := x.writer.QueryRowContext(ctx, "SELECT log FROM origin").Scan(&id); err != nil {
		return err
	}
	if id != x.id {
		return errOtherIndex
	}
	if _, err := x.writer.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	x.reader, err = openDB(x.path, "", searchReaderPragmas)
	if err == nil {
		x.reader.SetMaxOpenConns(searchReaders)
	}
	return err
}

// searchReaders is the number of queries that run at a time; others wait.
const searchReaders = 2

// recreate replaces the index by an empty one. x.mu is held, or nobody uses x
// yet.
func (x *SearchIndex) recreate(ctx context.Context) error {
	_ = x.closeDatabases()
	if err := RemoveSearch(filepath.Dir(x.path)); err != nil {
		return err
	}
	if err := createFile(x.path); err != nil {
		return err
	}
	db, err := openDB(x.path, "", searchWriterPragmas)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	for _, text := range []string{
		"PRAGMA auto_vacuum = INCREMENTAL",
		"PRAGMA journal_mode = WAL",
		searchSchema,
	} {
		if err == nil {
			_, err = db.ExecContext(ctx, text)
		}
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "INSERT INTO origin (log) VALUES (?)", x.id)
	}
	if err == nil { // last, because it makes the index valid
		_, err = db.ExecContext(ctx, fmt.Sprint("PRAGMA user_version = ", searchVersion))
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return x.open(ctx)
}

// RemoveSearch deletes the search index in the data directory dir, which no
// SearchIndex uses.
func RemoveSearch(dir string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.RemoveAll(filepath.Join(dir, searchFile+suffix)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Size returns the size of the files of the index, in bytes.
func (x *SearchIndex) Size() (size int64) {
	for _, suffix := range []string{"", "-wal"} {
		if st, err := os.Stat(x.path + suffix); err == nil {
			size += st.Size()
		}
	}
	return size
}

// Close implements [store.SearchIndex].
func (x *SearchIndex) Close() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closeDatabases()
}

func (x *SearchIndex) closeDatabases() error {
	var errs []error
	for _, db := range []*sql.DB{x.reader, x.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	x.reader, x.writer = nil, nil
	return errors.Join(errs...)
}

// corrupt reports whether err means that the file is no intact database.
func corrupt(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB
}

// read calls f with the connections for queries.
func (x *SearchIndex) read(ctx context.Context, f func(*sql.DB) error) error {
	x.mu.RLock()
	if x.reader == nil {
		x.mu.RUnlock()
		return errClosed()
	}
	db := x.reader
	err := f(db)
	x.mu.RUnlock()
	if corrupt(err) && ctx.Err() == nil {
		x.writing.Lock()
		defer x.writing.Unlock()
		err = x.repair(err, db)
	}
	return searchError(ctx, err)
}

// write calls f with a transaction, and commits it if f returns nil. x.writing
// is held.
func (x *SearchIndex) write(ctx context.Context, f func(*sql.Tx) error) error {
	x.mu.RLock()
	if x.writer == nil {
		x.mu.RUnlock()
		return errClosed()
	}
	db := x.reader
	err := x.transact(ctx, f)
	x.mu.RUnlock()
	if corrupt(err) && ctx.Err() == nil {
		err = x.repair(err, db)
	}
	return searchError(ctx, err)
}

func (x *SearchIndex) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := x.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// repair empties the index after an error that means damage, and returns the
// error. It does nothing if the databases are no longer those of db. x.writing
// is held.
func (x *SearchIndex) repair(err error, db *sql.DB) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reader != db || db == nil {
		return err
	}
	x.log.Warn("the search index is damaged; it is made again", slog.Any("error", err))
	if failed := x.recreate(context.Background()); failed != nil {
		x.log.Warn("the search index cannot be made again before the next start", slog.Any("error", failed))
	}
	return err
}

func searchError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrConflict):
		return err
	}
	return unavailable(err)
}

// Indexed implements [store.SearchIndex].
func (x *SearchIndex) Indexed(ctx context.Context) (map[string]store.SearchPosition, error) {
	at := make(map[string]store.SearchPosition)
	err := x.read(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT session, seq, state FROM sessions")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var p store.SearchPosition
			if err := rows.Scan(&id, &p.Seq, &p.State); err != nil {
				return err
			}
			at[id] = p
		}
		return rows.Err()
	})
	return at, err
}
