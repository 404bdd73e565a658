package sqlite

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

var update = flag.Bool("update", false, "write the database of this version's schema into testdata")

// The content of every database in testdata, independent of the version that
// wrote it.
var (
	fixtureTime    = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	fixtureSession = store.Session{
		ID: "s", CLIType: "script", ProjectID: "p", ProjectDir: "/p", Title: "old", AgentSessionID: "a", ModelID: "m", PermissionMode: "plan",
		Options: json.RawMessage(`{"model":"m"}`), State: event.StateOpen, LastTurn: event.StatusError, LastLine: "l", CreatedAt: fixtureTime, LastActiveAt: fixtureTime,
		SeenSeq: 5, // an upgrade marks everything as seen
	}
	fixtureQueued = store.Queued{Session: "s", Turn: "t3", Input: json.RawMessage(`{}`), At: fixtureTime}
	fixtureToken  = store.Token{ID: "1", Kind: store.TokenAPI, Name: "n", Hash: [32]byte{1, 2, 3}, Scopes: []string{"read"}, CreatedAt: fixtureTime}
	fixtureEvents = []event.Event{
		{Session: "s", Seq: 1, Turn: "t1", At: fixtureTime, Body: event.ResponseStart{ProviderID: "script", ModelID: "m"}},
		{Session: "s", Seq: 2, Turn: "t1", At: fixtureTime, Body: event.ItemDone{ItemID: "t1:1:0", FinalItem: event.Message{Content: "é <&>", Origin: event.OriginAgent}}},
		{Session: "s", Seq: 3, Turn: "t1", At: fixtureTime, Body: event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{InputTokens: 1}}},
		{Session: "s", Seq: 4, Body: event.Notice{Level: event.LevelInfo, Code: "c"}},
		{Session: "s", Seq: 5, Turn: "t2", At: fixtureTime, Body: event.ItemDelta{ItemID: "t2:1:0", DeltaContent: ""}},
	}
)

// undo16 removes what schema version 16 has added.
const undo16 = "ALTER TABLE rules DROP COLUMN session; "

// undo15 removes what the schema versions from 15 on have added.
const undo15 = undo16 + `ALTER TABLE queue DROP COLUMN place; ALTER TABLE queue DROP COLUMN about;
	ALTER TABLE sessions DROP COLUMN seen_seq; ALTER TABLE sessions DROP COLUMN queue_held;`

func fillFixture(t *testing.T, s *Store) {
	t.Helper()
	for i, ev := range fixtureEvents {
		if err := s.Append(t.Context(), "s", int64(i), ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		s.PutSession(t.Context(), fixtureSession), s.Enqueue(t.Context(), fixtureQueued), s.PutToken(t.Context(), fixtureToken),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkFixture(t *testing.T, s *Store) {
	t.Helper()
	var got []any
	for ev, err := range s.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev)
	}
	add := func(v any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	session, err := s.Session(t.Context(), "s")
	add(session, err)
	queue, err := s.Queue(t.Context(), "")
	add(queue, err)
	input, err := s.QueuedInput(t.Context(), fixtureQueued.Session, fixtureQueued.Turn)
	add(input, err)
	tokens, err := s.Tokens(t.Context(), store.TokenAPI)
	add(tokens, err)
	unfinished, err := s.Unfinished(t.Context())
	add(unfinished, err)
	usage, err := s.Usage(t.Context(), store.UsageFilter{By: store.UsageByDay})
	add(usage, err)
	var want []any
	for _, ev := range fixtureEvents {
		want = append(want, ev)
	}
	listed := fixtureQueued
	listed.Input = nil
	want = append(want, fixtureSession, []store.Queued{listed}, fixtureQueued.Input, []store.Token{fixtureToken}, []string{"s"},
		[]store.Usage{{Key: "2026-01-02", Turns: 1, Unpriced: 1, Tokens: event.Usage{InputTokens: 1}}})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("contents (-want +got):\n%s", d)
	}
}

func TestSchemaUpgrade(t *testing.T) {
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= len(list); version++ {
		fixture := filepath.Join("testdata", fmt.Sprintf("v%d.db", version))
		if *update && version == len(list) {
			writeFixture(t, fixture)
		}
		t.Run(fixture, func(t *testing.T) {
			dir := withFixture(t, fixture)
			for range 2 {
				s := openTest(t, dir, small)
				checkFixture(t, s)
				if got := pragma(t, s.writer.conn, "user_version"); got != fmt.Sprint(len(list)) {
					t.Errorf("version is %s, want %d", got, len(list))
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := openTest(t, dir, small)
			if err := s.Append(t.Context(), "s", 5, delta("s", 6)); err != nil {
				t.Error(err)
			}
		})
	}
}

func writeFixture(t *testing.T, path string) {
	t.Helper()
	dir := ownDir(t)
	s := openTest(t, dir, small)
	fillFixture(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "runnel.db"))
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withFixture returns a data directory with a copy of the database at path.
func withFixture(t *testing.T, path string) (dir string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir = ownDir(t)
	if err := os.WriteFile(filepath.Join(dir, "runnel.db"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNewerOrForeignDatabaseIsRefusedUnchanged opens databases that a later
// version or another program wrote. Open rejects them with a clear error and
// does not write to them. (If such a database has a write-ahead log, SQLite
// itself may copy it into the database on close.)
func TestNewerOrForeignDatabaseIsRefusedUnchanged(t *testing.T) {
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("header", func(t *testing.T) {
		dir := withFixture(t, "testdata/v1.db")
		path := filepath.Join(dir, "runnel.db")
		content := readFile(t, path)
		binary.BigEndian.PutUint32(content[60:], 99)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, refused(t, dir), path, "schema version 99", fmt.Sprint("versions up to ", len(list)), "use the newer runnel")
		if d := cmp.Diff(content, readFile(t, path)); d != "" {
			t.Error("the refused database was changed")
		}
	})
	t.Run("write-ahead log", func(t *testing.T) {
		// The version is only in the log, as after a crash.
		src := ownDir(t)
		s := openTest(t, src, small)
		inWriter(t, s, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(t.Context(), "PRAGMA user_version = 99")
			return err
		})
		dir := ownDir(t)
		for _, name := range []string{"runnel.db", "runnel.db-wal"} {
			if err := os.WriteFile(filepath.Join(dir, name), readFile(t, filepath.Join(src, name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wants(t, refused(t, dir), "schema version 99")
		wants(t, refused(t, dir), "schema version 99") // the first attempt changed nothing
	})
	t.Run("foreign", func(t *testing.T) {
		dir := ownDir(t)
		path := filepath.Join(dir, "runnel.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := openDB(path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("CREATE TABLE theirs (x)"); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		before := readFile(t, path)
		wants(t, refused(t, dir), path, "not a runnel database")
		if d := cmp.Diff(before, readFile(t, path)); d != "" {
			t.Error("the refused database was changed")
		}
	})
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestFailedSchemaStepIsRolledBack runs a migration to the next schema version
// that fails halfway.
func TestFailedSchemaStepIsRolledBack(t *testing.T) {
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(withFixture(t, "testdata/v1.db"), "runnel.db")
	half := "ALTER TABLE sessions ADD COLUMN colour TEXT; UPDATE sessions SET colour = 'red';"
	if w, err := openWriter(t.Context(), path, "", append(list, half+"INSERT INTO nowhere VALUES (1)"), nil); err == nil {
		w.close()
		t.Fatal("a script that fails was accepted")
	}
	for range 2 { // the second time no migration is due
		w, err := openWriter(t.Context(), path, "", append(list, half), nil)
		if err != nil {
			t.Fatal(err)
		}
		var colour string
		if err := w.conn.QueryRowContext(t.Context(), "SELECT colour FROM sessions").Scan(&colour); err != nil || colour != "red" {
			t.Errorf("colour %q, %v", colour, err)
		}
		if got := pragma(t, w.conn, "user_version"); got != fmt.Sprint(len(list)+1) {
			t.Errorf("version is %s, want %d", got, len(list)+1)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
}
