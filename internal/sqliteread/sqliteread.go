// Package sqliteread opens the SQLite database of another program for reading.
package sqliteread

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// pragmas are the settings of a connection. The database is not trustworthy:
// functions in its schema must have no effects.
var pragmas = []string{
	"query_only(ON)",
	"busy_timeout(200)", // milliseconds
	"trusted_schema(OFF)",
	"cell_size_check(ON)",
	"mmap_size(0)", // makes a read error an SQLite error instead of a SIGBUS
	"temp_store(MEMORY)",
	"cache_size(-2048)", // KiB
}

// maxValue bounds a value in memory, in bytes. Reading a longer one fails.
const maxValue = 64 << 20

// ErrNotRegular means that the path names no regular file.
var ErrNotRegular = errors.New("sqliteread: not a regular file")

// Open opens the database at path, which another program may write at the same
// time. It neither changes nor creates a file: without a write-ahead log, no
// other program has the database open, and it is read as it is. The caller
// closes it soon, so that it sees what a program writes later.
func Open(ctx context.Context, path string) (*sql.DB, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	query := url.Values{"_pragma": pragmas, "_dqs": {"0"}, "_error_rc": {"1"}, "_defensive": {"1"}, "mode": {"ro"}}
	if _, err := os.Lstat(path + "-wal"); err != nil {
		query.Set("immutable", "1")
	}
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") { // C:/…
		name = "/" + name
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: name, RawQuery: query.Encode()}
	connector, err := sqlite.NewConnector(file.String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	if err := limit(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// limit bounds what the only connection of db reads and computes.
func limit(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	_, err = sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, maxValue)
	return errors.Join(err, conn.Close())
}

// IsTable reports whether db has an ordinary table with this name. The schema
// is not trustworthy: a view or a virtual table could compute without end.
func IsTable(ctx context.Context, db *sql.DB, name string) (ok bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) = 1 FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ?", name).Scan(&ok)
	return ok, err
}
