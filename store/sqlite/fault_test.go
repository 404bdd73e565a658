package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// inWriter runs f as the leader, outside of any transaction.
func inWriter(t *testing.T, s *Store, f func(*sql.Conn) error) {
	t.Helper()
	err := s.submit(t.Context(), &job{do: func(w *writer) error {
		if _, err := w.commit.Exec(); err != nil {
			return err
		}
		err := f(w.conn)
		_, again := w.begin.Exec()
		return errors.Join(err, again)
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func big(session string, seq int64) event.Event {
	ev := delta(session, seq)
	ev.Body = event.ItemDelta{ItemID: "i", DeltaContent: strings.Repeat("x", 1<<20)}
	return ev
}

// TestFullDatabaseRefusesAndRecovers limits the size of the database. Appends
// that are too large fail, and appends that fit succeed. Once the limit is
// raised, all appends succeed again.
func TestFullDatabaseRefusesAndRecovers(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	inWriter(t, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), "PRAGMA max_page_count = 60")
		return err
	})
	err := s.Append(t.Context(), "s", 0, big("s", 1))
	if runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Fatalf("Append to a full database: %v", err)
	}
	wants(t, runnel.Safe(err).Message, "disk is full")
	if err := s.Append(t.Context(), "s", 0, done("s", 1)); err != nil {
		t.Fatalf("Append of what fits: %v", err)
	}

	// Concurrent appends: only those that are too large fail.
	var wg sync.WaitGroup
	errs := make([]error, 20)
	release := holdCommitter(t, s)
	for i := range errs {
		session := fmt.Sprint("w", i)
		ev := delta(session, 1)
		if i%5 == 0 {
			ev = big(session, 1)
		}
		wg.Go(func() { errs[i] = s.Append(t.Context(), session, 0, ev) })
	}
	release()
	wg.Wait()
	for i, err := range errs {
		if want := i%5 == 0; (err != nil) != want {
			t.Errorf("append %d: %v, want an error: %v", i, err, want)
		}
		if n := count(t, s, fmt.Sprint("w", i)); (n == 1) != (err == nil) {
			t.Errorf("append %d has %d events and error %v", i, n, err)
		}
	}

	inWriter(t, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), "PRAGMA max_page_count = 4294967294")
		return err
	})
	if err := s.Append(t.Context(), "s", 1, big("s", 2)); err != nil {
		t.Errorf("Append with room again: %v", err)
	}
}

// holdCommitter runs a job that keeps the leadership until release is called.
func holdCommitter(t *testing.T, s *Store) (release func()) {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	go s.submit(t.Context(), &job{do: func(*writer) error {
		close(held)
		<-free
		return nil
	}})
	<-held
	return func() { close(free) }
}

// TestConflictAmongOthers runs one transaction in which some appends conflict,
// and checks that the other appends succeed.
func TestConflictAmongOthers(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	release := holdCommitter(t, s)
	var wg sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		wg.Go(func() {
			session, head := fmt.Sprint("s", i/2), int64(i%2*7) // every second append has a head beyond the end of its log
			errs[i] = s.Append(t.Context(), session, head, delta(session, head+1))
		})
	}
	release()
	wg.Wait()
	for i, err := range errs {
		if want := i%2 == 1; errors.Is(err, runnel.ErrConflict) != want || !want && err != nil {
			t.Errorf("append %d: %v, want a conflict: %v", i, err, want)
		}
	}
}

// TestDamagedEventIsReported changes one event directly in the database. Read
// reports the damage and still returns the events before it.
func TestDamagedEventIsReported(t *testing.T) {
	for name, change := range map[string]string{
		"payload": "UPDATE events SET payload = CAST(replace(payload, 'then', 'than') AS BLOB) WHERE seq = 3",
		"time":    "UPDATE events SET at = at + 1 WHERE seq = 3",
		"turn":    "UPDATE events SET turn = NULL WHERE seq = 3",
		"seq":     "UPDATE events SET seq = CASE seq WHEN 3 THEN 100 END WHERE seq = 3; UPDATE events SET seq = 3 WHERE seq = 4",
		"json":    "UPDATE events SET payload = x'7b' WHERE seq = 3",
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			s := openTest(t, dir, small)
			for seq := range int64(5) {
				if err := s.Append(t.Context(), "s", seq, delta("s", seq+1)); err != nil {
					t.Fatal(err)
				}
			}
			inWriter(t, s, func(conn *sql.Conn) error {
				_, err := conn.ExecContext(t.Context(), change)
				return err
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var logged bytes.Buffer
			s, err := open(t.Context(), Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, small)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var last int64
			var failed error
			for range 2 { // the second time it is not logged again
				for ev, err := range s.Read(t.Context(), "s", 0) {
					if failed = err; err == nil {
						last = ev.Seq
					}
				}
			}
			if d := damageOf(t, failed); d.Session != "s" || d.Seq != 3 {
				t.Errorf("damage is reported of event %d of %q, want 3 of s", d.Seq, d.Session)
			}
			if n := strings.Count(logged.String(), "\n"); n != 1 {
				t.Errorf("%d lines were logged, want 1:\n%s", n, &logged)
			}
			wants(t, logged.String(), "level=ERROR", "session=s", "seq=3")
			if last != 2 || runnel.CodeOf(failed) != runnel.StoreUnavailable {
				t.Fatalf("read up to %d, then %v, want 2 and %s", last, failed, runnel.StoreUnavailable)
			}
			wants(t, runnel.Safe(failed).Message, "damaged")
		})
	}
}

func damageOf(t *testing.T, err error) DamageError {
	t.Helper()
	damage, ok := errors.AsType[*DamageError](err)
	if !ok {
		t.Fatalf("%v is not damage", err)
	}
	return *damage
}

// TestWriteAheadLogStaysBounded checks that the size of the write-ahead log
// stays bounded, even if the writer is never idle.
func TestWriteAheadLogStaysBounded(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	var largest int64
	for i := range int64(60) {
		if err := s.Append(t.Context(), "s", i, big("s", i+1)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "runnel.db-wal"))
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if largest < 1<<20 || largest > 32<<20 {
		t.Errorf("the write-ahead log grew to %d bytes for 60 MiB, want at most 32 MiB", largest)
	}
}

// TestPartlyFailed makes a transaction fail in the middle of a job. Neither the
// database nor the cached positions keep any change of that job.
func TestPartlyFailed(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := s.submit(t.Context(), &job{do: func(w *writer) error {
		rows := make([]row, 3)
		for i := range rows {
			r, err := encode(delta("s", int64(i)+2))
			if err != nil {
				return err
			}
			r.Turn = fmt.Sprint("t", i)
			rows[i] = r
		}
		return errors.Join(w.append("s", 1, rows), boom)
	}})
	if !errors.Is(err, boom) || runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Fatalf("submit: %v", err)
	}
	st, err := s.State(t.Context(), "s")
	if err != nil || st.Head != 1 || len(st.Open) != 1 || count(t, s, "s") != 1 {
		t.Errorf("state after a transaction that was undone: %+v, %v", st, err)
	}
	if err := s.Append(t.Context(), "s", 1, delta("s", 2)); err != nil {
		t.Errorf("Append after a transaction that was undone: %v", err)
	}
}
