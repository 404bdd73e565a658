package sqlite

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// secureDelete makes SQLite overwrite deleted rows with zeros. A connection
// with this setting may also write database pages directly, which scrub needs.
// openDB sets _defensive on all other connections to prevent that.
const secureDelete = "secure_delete(ON)"

// The settings of the connections to the database. Two of them change later:
// useLog sets journal_mode, and setStrength changes synchronous between
// transactions.
var (
	commonPragmas = []string{
		"busy_timeout(5000)", // milliseconds; another program may have the file open
		"temp_store(MEMORY)",
		"mmap_size(0)", // makes a read error an SQLite error instead of a SIGBUS
		"trusted_schema(OFF)",
	}
	writerPragmas = append([]string{
		"synchronous(FULL)",
		secureDelete,
		"foreign_keys(ON)",
		"cache_size(-2048)",            // KiB
		"wal_autocheckpoint(0)",        // checkpoint runs it, so that its errors are seen
		"journal_size_limit(16777216)", // bytes; truncates the write-ahead log after a burst
	}, commonPragmas...)
	readerPragmas = append([]string{
		"query_only(ON)",
		"cache_size(-512)",
	}, commonPragmas...)
)

// openDB returns connections to the file at path, each with the given pragmas.
// The driver reads pragmas from the _pragma parameter and ignores the
// parameters of other drivers. vfs names an SQLite file system; "" is the
// default of the operating system.
func openDB(path, vfs string, pragmas []string) (*sql.DB, error) {
	query := url.Values{"_pragma": pragmas, "_dqs": {"0"}, "_error_rc": {"1"}, "mode": {"rw"}}
	if !slices.Contains(pragmas, secureDelete) {
		query.Set("_defensive", "1")
	}
	if vfs != "" {
		query.Set("vfs", vfs)
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: slashed(path), RawQuery: query.Encode()}
	connector, err := sqlite.NewConnector(name.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// slashed returns an absolute path in the form that file URLs use.
func slashed(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	return path
}
