package sqlite

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// secureDelete has the connection overwrite what it deletes. It may overwrite
// parts of pages as well, see scrub, which others may not.
const secureDelete = "secure_delete(ON)"

// The settings of our connections. journal_mode is set by openWriter, and
// synchronous changes from transaction to transaction.
var (
	commonPragmas = []string{
		"busy_timeout(5000)", // another program may look into the file
		"temp_store(MEMORY)",
		"mmap_size(0)", // an error while reading is then an error and not a signal
		"trusted_schema(OFF)",
	}
	writerPragmas = append([]string{
		"synchronous(FULL)",
		secureDelete,
		"foreign_keys(ON)",
		"cache_size(-2048)",            // KiB
		"wal_autocheckpoint(0)",        // we do it, to know if it failed
		"journal_size_limit(16777216)", // what a burst leaves of the write-ahead log
	}, commonPragmas...)
	readerPragmas = append([]string{
		"query_only(ON)",
		"cache_size(-512)",
	}, commonPragmas...)
)

// openDB returns connections to the file at path, each with these settings.
// This driver ignores the settings that other drivers take in a name. vfs names
// one of SQLite's file systems, "" for the operating system's.
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

// slashed returns an absolute path in the form that URLs have.
func slashed(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	return path
}
