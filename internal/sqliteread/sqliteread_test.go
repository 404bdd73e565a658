package sqliteread

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (3)"); err == nil {
		t.Error("the database can be changed")
	}
	return n
}

// files returns the names and contents of a folder.
func files(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := make(map[string][32]byte)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = sha256.Sum256(data)
	}
	return all
}

func TestReadingSeesNewRowsAndLeavesFilesAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a ?#.db")
	writer, err := sql.Open("sqlite", "file:"+dir+"/a%20%3F%23.db")
	if err != nil {
		t.Fatal(err)
	}
	writer.SetMaxOpenConns(1)
	exec(t, writer, "PRAGMA journal_mode = WAL")
	exec(t, writer, "CREATE TABLE t (x)")
	exec(t, writer, "INSERT INTO t VALUES (1)")
	if n := count(t, path); n != 1 {
		t.Errorf("%d rows while the writer runs", n)
	}
	exec(t, writer, "INSERT INTO t VALUES (2)")
	if n := count(t, path); n != 2 {
		t.Errorf("%d rows after another one", n)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	if n := count(t, path); n != 2 {
		t.Errorf("%d rows after the writer ended", n)
	}
	after := files(t, dir)
	if len(before) != len(after) || len(after) != 1 || before["a ?#.db"] != after["a ?#.db"] {
		t.Errorf("reading changed the folder: %d files, before %d", len(after), len(before))
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{dir, link} {
		if _, err := Open(t.Context(), path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestViewsAreNoTablesAndLongValuesFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	writer, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, writer, "CREATE TABLE t (x, y GENERATED ALWAYS AS (zeroblob(x)))")
	exec(t, writer, "CREATE VIEW v AS SELECT 1")
	exec(t, writer, "CREATE VIRTUAL TABLE f USING fts5(x)")
	exec(t, writer, "INSERT INTO t (x) VALUES (1000000)")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, want := range map[string]bool{"t": true, "v": false, "f": false, "none": false} {
		if ok, err := IsTable(t.Context(), db, name); err != nil || ok != want {
			t.Errorf("%s is a table: %v, %v", name, ok, err)
		}
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT length(y) FROM t").Scan(&n); err != nil || n != 1_000_000 {
		t.Errorf("a value of %d bytes: %v", n, err)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT length(zeroblob(x * 1000)) FROM t").Scan(&n); err == nil {
		t.Errorf("a value of %d bytes was computed", n)
	}
}
