package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// longTurn appends a turn of n events that does not end, and puts a checkpoint
// with this text after every fourth event.
func longTurn(t *testing.T, s *Store, session string, n int, text string) {
	t.Helper()
	evs := []event.Event{{Session: session, Seq: 1, Turn: "t", Body: event.ResponseStart{ProviderID: "p"}}}
	for len(evs) < n {
		evs = append(evs, event.Event{Session: session, Seq: int64(len(evs)) + 1, Turn: "t", Body: event.ItemDelta{ItemID: "t:1", DeltaContent: "x"}})
	}
	if err := s.Append(t.Context(), session, 0, evs...); err != nil {
		t.Fatal(err)
	}
	for seq := int64(4); seq <= int64(n); seq += 4 {
		c := runnel.Checkpoint{Seq: seq, Events: []event.Event{{Session: session, Seq: seq, Turn: "t", Body: event.ItemDelta{ItemID: "t:1", DeltaContent: text}}}}
		if err := s.PutCheckpoint(t.Context(), session, c); err != nil {
			t.Fatal(err)
		}
	}
}

func newestCheckpoint(t *testing.T, s *Store, session string, at int64) int64 {
	t.Helper()
	c, err := s.Checkpoint(t.Context(), session, at)
	if err != nil {
		t.Fatal(err)
	}
	return c.Seq
}

func TestDamagedCheckpointIsRemovedAndTheOneBeforeIsUsed(t *testing.T) {
	for name, damage := range map[string]string{
		"events":   "UPDATE checkpoints SET events = CAST(replace(CAST(events AS TEXT), 'text', 'tixt') AS BLOB) WHERE seq = 12",
		"position": "UPDATE checkpoints SET seq = 11 WHERE seq = 12",
		"cut off":  "UPDATE checkpoints SET events = substr(events, 1, 10) WHERE seq = 12",
		"session":  "UPDATE checkpoints SET session = (SELECT key FROM logs WHERE session = 'other') WHERE seq = 12",
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, ownDir(t), small)
			longTurn(t, s, "other", 12, "text")
			longTurn(t, s, "s", 12, "text")
			inWriter(t, s, func(conn *sql.Conn) error {
				_, err := conn.ExecContext(t.Context(), "DELETE FROM checkpoints WHERE seq = 12 AND session = (SELECT key FROM logs WHERE session = 'other');"+damage)
				return err
			})
			session := "s"
			if name == "session" {
				session = "other"
			}
			if got := newestCheckpoint(t, s, session, 100); got != 8 {
				t.Errorf("the checkpoint at %d is used", got)
			}
			var left int
			if err := s.reader.db.QueryRowContext(t.Context(), "SELECT count(*) FROM checkpoints WHERE seq > 8").Scan(&left); err != nil || left > 0 {
				t.Errorf("%d damaged checkpoints are left, %v", left, err)
			}
		})
	}
}

func TestDeletedSessionLeavesNoCheckpoints(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	if err := s.PutSession(t.Context(), store.Session{ID: "s", CLIType: "c", State: event.StateOpen}); err != nil {
		t.Fatal(err)
	}
	longTurn(t, s, "s", 200, strings.Repeat("secret of the session ", 500))
	longTurn(t, s, "kept", 12, "text")
	if where(t, dir, "secret of the session") == nil {
		t.Fatal("the test finds nothing where there is something")
	}
	if err := s.DeleteSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	tidy(t, s)
	if found := where(t, dir, "secret of the session"); found != nil {
		t.Errorf("it is still in %v", found)
	}
	if got := newestCheckpoint(t, s, "kept", 100); got != 12 {
		t.Errorf("the other session has a checkpoint at %d", got)
	}
	if err := s.PutCheckpoint(t.Context(), "s", runnel.Checkpoint{Seq: 4}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a checkpoint of the deleted session: %v", err)
	}
}

// A foreign key deletes the checkpoints of a log with the log.
func TestDeletingALogDeletesItsCheckpoints(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	longTurn(t, s, "s", 12, "text")
	inWriter(t, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), "DELETE FROM logs WHERE session = 's'")
		return err
	})
	var left int
	if err := s.reader.db.QueryRowContext(t.Context(), "SELECT count(*) FROM checkpoints").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d checkpoints are left, %v", left, err)
	}
}

func TestCompactionRemovesLargeCheckpointsOfTheTurn(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	longTurn(t, s, "small", 12, "text")
	longTurn(t, s, "large", 12, strings.Repeat("x", keptCheckpoint))
	for _, session := range []string{"small", "large"} {
		done := []event.Event{
			{Session: session, Seq: 13, Turn: "t", Body: event.ItemDone{ItemID: "t:1", FinalItem: event.Message{Content: "x", Origin: event.OriginAgent}}},
			{Session: session, Seq: 14, Turn: "t", Body: event.ResponseDone{Status: event.StatusCompleted}},
		}
		if err := s.Append(t.Context(), session, 12, done...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]int64{"small": 12, "large": 0} {
		if got := newestCheckpoint(t, s, session, 13); got != want {
			t.Errorf("%s: the checkpoint before 13 is at %d, want %d", session, got, want)
		}
	}
}

// A checkpoint may replace events that are only in the journal. The transaction
// that stores the checkpoint also inserts these events into the database.
func TestCheckpointIsNeverAheadOfTheDatabase(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	longTurn(t, s, "s", 4, "text")
	for head := int64(4); head < 12; head++ {
		if err := s.Append(t.Context(), "s", head, event.Event{Session: "s", Seq: head + 1, Turn: "t", Body: event.ItemDelta{ItemID: "t:1", DeltaContent: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	if s.writer.journal.empty() {
		t.Fatal("no event is in the journal")
	}
	if err := s.PutCheckpoint(t.Context(), "s", runnel.Checkpoint{Seq: 12}); err != nil {
		t.Fatal(err)
	}
	copied := ownDir(t) // as after a power loss that lost the journal
	for _, name := range []string{"runnel.db", "runnel.db-wal"} {
		if err := os.WriteFile(filepath.Join(copied, name), readFile(t, filepath.Join(dir, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := openTest(t, copied, small)
	st, err := again.State(t.Context(), "s")
	if err != nil || st.Head != 12 || newestCheckpoint(t, again, "s", 100) != 12 {
		t.Errorf("the log ends at %d, %v", st.Head, err)
	}
}

func TestBackupHasCheckpoints(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	longTurn(t, s, "s", 12, "text")
	want, err := s.Checkpoint(t.Context(), "s", 100)
	if err != nil {
		t.Fatal(err)
	}
	dir := ownDir(t)
	if err := s.Backup(t.Context(), filepath.Join(dir, "runnel.db")); err != nil {
		t.Fatal(err)
	}
	restored := openTest(t, dir, small)
	got, err := restored.Checkpoint(t.Context(), "s", 100)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// Turns that an older program wrote get their mark when the schema is upgraded.
func TestUpgradeFindsWhereNoTurnIsOpen(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	end := event.ResponseDone{Status: event.StatusCompleted}
	begin := event.ResponseStart{ProviderID: "p"}
	for session, turns := range map[string]string{"plain": "aAbBcC", "nested": "abBcCAdD", "crossed": "abABcCd"} {
		for i, turn := range turns {
			ev := event.Event{Session: session, Seq: int64(i) + 1, Turn: strings.ToLower(string(turn)), Body: begin}
			if ev.Turn != string(turn) {
				ev.Body = end
			}
			if err := s.Append(t.Context(), session, int64(i), ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	cuts := func(s *Store) (all string) {
		for _, session := range []string{"plain", "nested", "crossed"} {
			for at := range int64(9) {
				cut, err := s.Cut(t.Context(), session, at)
				if err != nil {
					t.Fatal(err)
				}
				all += fmt.Sprint(cut, " ")
			}
		}
		return all
	}
	want := cuts(s)
	if want != "0 0 2 2 4 4 6 6 6 "+"0 0 0 0 0 0 6 6 8 "+"0 0 0 0 4 4 6 6 6 " {
		t.Fatal(want)
	}
	inWriter(t, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(context.Background(), undo15+"DROP TABLE usage; DROP TABLE checkpoints; DROP INDEX turns_clean; ALTER TABLE turns DROP COLUMN clean; ALTER TABLE reports DROP COLUMN commands; DROP TABLE push_subscriptions; DROP TABLE push_key; PRAGMA user_version = 10")
		return err
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := cuts(openTest(t, dir, small)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
