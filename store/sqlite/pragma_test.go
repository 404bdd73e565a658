package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pragma(t *testing.T, conn *sql.Conn, name string) string {
	t.Helper()
	var v string
	if err := conn.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&v); err != nil {
		t.Fatalf("PRAGMA %s: %v", name, err)
	}
	return v
}

// TestPragmas reads back the settings of the connections, because the driver
// ignores an unknown setting without an error.
func TestPragmas(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	both := map[string]string{
		"journal_mode": "wal", "busy_timeout": "5000", "temp_store": "2", "mmap_size": "0", "trusted_schema": "0",
	}
	check := func(name string, conn *sql.Conn, want map[string]string) {
		for _, m := range []map[string]string{both, want} {
			for p, v := range m {
				if got := pragma(t, conn, p); got != v {
					t.Errorf("%s: %s is %s, want %s", name, p, got, v)
				}
			}
		}
	}
	check("writer", s.writer.conn, map[string]string{
		"synchronous": "2", "foreign_keys": "1", "cache_size": "-2048", "wal_autocheckpoint": "0",
		"journal_size_limit": "16777216", "query_only": "0", "user_version": fmt.Sprint(len(list)), "auto_vacuum": "2", "application_id": fmt.Sprint(applicationID),
	})
	for i := range readers { // uses all connections at the same time
		conn, err := s.reader.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		check(fmt.Sprint("reader ", i), conn, map[string]string{"query_only": "1", "cache_size": "-512"})
		if _, err := conn.ExecContext(t.Context(), "DELETE FROM events"); err == nil {
			t.Error("a reader may write")
		}
	}
}

// TestStrength checks the synchronous setting with which each commit ran.
func TestStrength(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	var head int64
	appendOne := func(decided bool) {
		ev := delta("s", head+1)
		if decided {
			ev = done("s", head+1)
		}
		if err := s.Append(t.Context(), "s", head, ev); err != nil {
			t.Fatal(err)
		}
		head++
		if !decided {
			fold(t, s)
		}
	}
	level := func() string { return pragma(t, s.writer.conn, "synchronous") }
	for i, decided := range []bool{false, false, true, false, true, true, false} {
		appendOne(decided)
		want := map[bool]string{false: "1", true: "2"}[decided]
		if got := level(); got != want {
			t.Errorf("append %d, decided %v: synchronous is %s, want %s", i, decided, got, want)
		}
	}
	if err := s.Dequeue(t.Context(), "s", "t"); err != nil {
		t.Fatal(err)
	}
	if got := level(); got != "2" {
		t.Errorf("a change of the catalogue: synchronous is %s, want 2", got)
	}
	// One strong job makes the whole transaction strong.
	appendOne(false)
	nothing := func(*writer) error { return nil }
	if err := s.writer.transact([]*job{{do: nothing}, {do: nothing, strong: true}, {do: nothing}}); err != nil { // no other goroutine is the leader
		t.Fatal(err)
	}
	if got := level(); got != "2" {
		t.Errorf("a transaction with one decision: synchronous is %s, want 2", got)
	}
}

// TestPath opens directories whose names contain characters with a meaning in
// URLs.
func TestPath(t *testing.T) {
	for _, name := range []string{"with space", "q?mode=memory", "h#ash", "per%41cent", "am&_pragma=x", "plus+", "ünï", "semi;colon", "'quote'"} {
		dir := filepath.Join(ownDir(t), name)
		s := openTest(t, dir, small)
		if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Name())
		}
		if d := cmp.Diff([]string{"lock", "reserve", "runnel.db", "runnel.journal"}, got); d != "" {
			t.Errorf("%s holds (-want +got):\n%s", name, d)
		}
	}
}
