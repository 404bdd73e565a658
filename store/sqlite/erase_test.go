package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/store"
)

// where returns the names of the files in dir that contain text.
func where(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(content, []byte(text)); n > 0 {
			names = append(names, fmt.Sprintf("%s (%d times)", filepath.Base(name), n))
		}
	}
	return names
}

// TestDeletedSessionLeavesNoBytes mixes sessions whose texts are as long as a
// word or as several pages, and deletes them one by one. Neither the database
// nor its write-ahead log may then contain any text of a deleted session.
func TestDeletedSessionLeavesNoBytes(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if seed > 0 {
				testload.TakesLong(t)
			}
			r := rand.New(rand.NewPCG(seed, seed))
			dir := ownDir(t)
			s := openTest(t, dir, small)
			heads := make(map[string]int64)
			var ids []string
			for range 20 {
				ids = append(ids, fmt.Sprintf("%016x", r.Uint64()))
			}
			mark := func(id string) string { return "mark of " + id + " " }
			for range 300 {
				id := ids[r.IntN(len(ids))]
				now := time.Now()
				text := strings.Repeat(mark(id), 1<<r.IntN(10))
				evs := []event.Event{{Session: id, Seq: heads[id] + 1, At: now, Body: event.Notice{Level: event.LevelInfo, Code: "CODE", Message: text}}}
				if err := s.Append(t.Context(), id, heads[id], evs...); err != nil {
					t.Fatal(err)
				}
				heads[id]++
				rec := store.Session{ID: id, CLIType: "c", ProjectDir: "/" + mark(id), Title: text[:min(len(text), 200)], LastLine: text[:min(len(text), 1<<r.IntN(9))], State: event.StateOpen, LastActiveAt: now}
				if err := s.PutSession(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				q := store.Queued{Session: id, Turn: fmt.Sprint(heads[id]), Input: []byte(`"` + text + `"`), At: now}
				if err := s.Enqueue(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				if where(t, dir, mark(id)) == nil && heads[id] > 0 {
					t.Fatal("the test finds nothing where there is something")
				}
				if err := s.DeleteSession(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				tidy(t, s)
				if found := where(t, dir, id); found != nil {
					t.Errorf("deleted, session %s is still in %v", id, found)
				}
			}
			var verdict string
			if err := s.reader.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
				t.Errorf("the database is damaged: %s, %v", verdict, err)
			}
		})
	}
}

// A server may stop right after it deleted a session. Close then removes what
// is left of the session.
func TestCloseFinishesDeletions(t *testing.T) {
	for i := range 5 {
		dir := ownDir(t)
		s := openTest(t, dir, small)
		const mark = "mark of the deleted session"
		head := appendTurn(t, s, "other", 0, "t", 3000, 10)
		for seq := range int64(100 * i) {
			ev := event.Event{Session: "s", Seq: seq + 1, Body: event.Notice{Level: event.LevelInfo, Code: "CODE", Message: mark}}
			if err := s.Append(t.Context(), "s", seq, ev); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.PutSession(t.Context(), store.Session{ID: "s", CLIType: "c", Title: mark, State: event.StateOpen}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.DeleteSession(t.Context(), "s"), s.Close()); err != nil {
			t.Fatal(err)
		}
		if found := where(t, dir, mark); found != nil {
			t.Errorf("with %d events, the session is still in %v", 100*i, found)
		}
		if n := count(t, openTest(t, dir, small), "other"); n != int(head) {
			t.Errorf("%d events of another session are left of %d", n, head)
		}
	}
}

// TestDeletedSessionIsErasedBehindReaders deletes a session while a reader
// needs the write-ahead log, as a backup does. The store erases the deleted
// data soon after the reader has finished.
func TestDeletedSessionIsErasedBehindReaders(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	const mark = "d7a1c5f09be2"
	if err := s.PutSession(t.Context(), store.Session{ID: "a", CLIType: "c", Title: mark, State: event.StateOpen}); err != nil {
		t.Fatal(err)
	}
	tx, err := s.reader.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var title string
	if err := tx.QueryRowContext(t.Context(), "SELECT title FROM sessions").Scan(&title); err != nil || title != mark {
		t.Fatalf("the reader sees %q, %v", title, err)
	}
	if err := s.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if erased, err := s.erase(t.Context()); erased || err != nil {
		t.Fatalf("the log that a reader needs was emptied: %v, %v", erased, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for found := where(t, dir, mark); found != nil; found = where(t, dir, mark) { // the keeper tries again
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the reader is done, and it is still in %v", found)
		}
	}
}

// An import may have a hundred thousand turns, whose compaction takes hours. A
// session that is deleted meanwhile does not stay in the files for as long.
func TestDeletedSessionIsErasedBeforeManyTurnsAreCompacted(t *testing.T) {
	dir := ownDir(t)
	s, err := open(t.Context(), Config{Dir: dir, CompactAfter: -1}, small)
	if err != nil {
		t.Fatal(err)
	}
	const mark, turns = "mark of the deleted session", 1500
	var evs []event.Event
	for i := range turns {
		for _, b := range []event.Body{event.ResponseStart{ProviderID: "p"}, event.ResponseDone{Status: event.StatusCompleted}} {
			evs = append(evs, event.Event{Session: "long", Seq: int64(len(evs) + 1), Turn: fmt.Sprint("t", i), Body: b})
		}
	}
	err = errors.Join(
		s.Append(t.Context(), "long", 0, evs...),
		s.Append(t.Context(), "s", 0, event.Event{Session: "s", Seq: 1, Body: event.Notice{Level: event.LevelInfo, Code: "CODE", Message: mark}}),
		s.Close())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = open(t.Context(), Config{Dir: dir, CompactAfter: 1}, small); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	left := func() (n int) {
		if err := s.reader.db.QueryRow("SELECT count(*) FROM turns WHERE compacted = 0").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	late := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deleted := false; !deleted || where(t, dir, mark) != nil; {
		if !deleted && left() < turns { // the compaction has begun
			deleted = true
			if err := s.DeleteSession(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d turns are not compacted; the session is in %v", left(), where(t, dir, mark))
		}
	}
	if left() == 0 {
		t.Error("the session was erased only after all turns were compacted")
	}
}
