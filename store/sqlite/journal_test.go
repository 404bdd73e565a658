package sqlite

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// fold runs a transaction that inserts the pending events of the journal.
func fold(t *testing.T, s *Store) {
	t.Helper()
	if err := s.submit(t.Context(), &job{}); err != nil {
		t.Fatal(err)
	}
}

// inDatabase returns how many events of a session the database has.
func inDatabase(t *testing.T, s *Store, session string) (n int) {
	t.Helper()
	err := s.reader.db.QueryRowContext(t.Context(), "SELECT count(*) FROM events WHERE session = (SELECT key FROM logs WHERE session = ?)", session).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addDeltas appends n events that go into the journal, one by one.
func addDeltas(t *testing.T, s *Store, session string, head int64, n int) int64 {
	t.Helper()
	for range n {
		if err := s.Append(t.Context(), session, head, delta(session, head+1)); err != nil {
			t.Fatal(err)
		}
		head++
	}
	return head
}

// abandon copies the files of an open store into a new directory, as if its
// process had been killed.
func abandon(t *testing.T, dir string) (copied string) {
	t.Helper()
	copied = ownDir(t)
	for _, name := range []string{"runnel.db", "runnel.db-wal", "runnel.journal"} {
		if err := os.WriteFile(filepath.Join(copied, name), readFile(t, filepath.Join(dir, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

func TestShownEventsReachTheDatabaseWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTest(t, ownDir(t), small)
		head := addDeltas(t, s, "s", 0, 20)
		if n := inDatabase(t, s, "s"); n != 1 { // the first event starts the log and the turn
			t.Errorf("the database has %d events at once, want 1", n)
		}
		if n := count(t, s, "s"); n != 20 {
			t.Errorf("readers get %d events, want 20", n)
		}
		<-time.After(foldAfter)
		synctest.Wait()
		if n := inDatabase(t, s, "s"); n != 20 {
			t.Errorf("the database has %d events after a second, want 20", n)
		}
		addDeltas(t, s, "s", head, 5)
		<-time.After(foldAfter)
		synctest.Wait()
		if n := inDatabase(t, s, "s"); n != 25 {
			t.Errorf("the database has %d events after another second, want 25", n)
		}
	})
}

func TestDecisionTakesShownEventsIntoTheDatabase(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	s.keeper.stop()
	head := addDeltas(t, s, "s", 0, 20)
	addDeltas(t, s, "other", 0, 20)
	if err := s.Append(t.Context(), "s", head, done("s", head+1)); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]int{"s": 21, "other": 20} {
		if n := inDatabase(t, s, session); n != want {
			t.Errorf("the database has %d events of %s, want %d", n, session, want)
		}
	}
}

// A reader gets the same events whether they are in the database, in the
// journal or partly in both.
func TestReadersGetTheSameFromDatabaseAndJournal(t *testing.T) {
	s := openTest(t, ownDir(t), small)
	s.keeper.stop()
	head := int64(0)
	for i := range 40 {
		head = addDeltas(t, s, "s", head, 1+i%7)
		if i%5 == 0 {
			fold(t, s)
		}
		for after := range head {
			at := after
			for ev, err := range s.Read(t.Context(), "s", after) {
				if at++; err != nil || ev.Seq != at {
					t.Fatalf("after %d of %d: event %d, %v, want %d", after, head, ev.Seq, err, at)
				}
			}
			if at != head {
				t.Fatalf("after %d: read up to %d of %d", after, at, head)
			}
		}
		if st, err := s.State(t.Context(), "s"); err != nil || st.Head != head {
			t.Fatalf("the log ends at %d, its state says %+v, %v", head, st, err)
		}
	}
}

// The limits of a tail do not remove events from memory that are not in the
// database yet.
func TestEventsInTheJournalStayInMemory(t *testing.T) {
	s := openTest(t, ownDir(t), tailLimits{events: 3, bytes: 1000, allBytes: 1000})
	s.keeper.stop()
	for i := range 30 {
		session := fmt.Sprint("s", i)
		addDeltas(t, s, session, 0, 10)
	}
	for i := range 30 {
		if n := count(t, s, fmt.Sprint("s", i)); n != 10 {
			t.Errorf("session %d has %d events, want 10", i, n)
		}
	}
	fold(t, s)
	if s.tails.bytes > 1000 {
		t.Errorf("%d bytes stay in memory, want at most 1000", s.tails.bytes)
	}
}

func TestJournalIsBounded(t *testing.T) {
	for name, event := range map[string]func(string, int64) event.Event{"many": delta, "large": big} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			s := openTest(t, dir, small)
			s.keeper.stop()
			n := 2*journalEvents + 10
			if name == "large" {
				n = 100
			}
			if testing.Short() && name == "many" {
				n = journalEvents + 10
			}
			addDeltas(t, s, "s", 0, 1)
			for i := int64(1); i < int64(n); i++ {
				if err := s.Append(t.Context(), "s", i, event("s", i+1)); err != nil {
					t.Fatal(err)
				}
				if j := s.writer.journal; len(j.pending) > journalEvents || j.size > 2*journalBytes {
					t.Fatalf("%d events and %d bytes wait", len(j.pending), j.size)
				}
			}
			if got := count(t, s, "s"); got != n {
				t.Errorf("%d events, want %d", got, n)
			}
			if info, err := os.Stat(journalPath(dir)); err != nil || info.Size() > 2*journalBytes {
				t.Errorf("the journal has %d bytes, %v", info.Size(), err)
			}
		})
	}
}

// stepOf returns the distance between places to damage, in bytes: n if
// RUNNEL_LONG is set. The places begin with a random one.
func stepOf(n int) int {
	if long {
		return n
	}
	return 12 * n
}

// After a kill, some events are only in the journal. If the end of the journal
// is cut off, the store has exactly the events before the cut.
func TestJournalCutAnywhereKeepsABeginning(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	s.keeper.stop()
	addDeltas(t, s, "s", 0, 12)
	addDeltas(t, s, "other", 0, 3)
	var want []event.Event
	for ev, err := range s.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ev)
	}
	killed := abandon(t, dir)
	whole := readFile(t, journalPath(killed))
	last := -1
	step := stepOf(7)
	for cut := rand.IntN(step); cut <= len(whole); cut += step {
		next := abandon(t, killed)
		if err := os.WriteFile(journalPath(next), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		c := openTest(t, next, small)
		var got []event.Event
		for ev, err := range c.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
		}
		if len(got) < max(last, 1) || !reflect.DeepEqual(got, want[:len(got)]) {
			t.Fatalf("cut at %d: %d events, had %d before: %+v", cut, len(got), last, got)
		}
		last = len(got)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if c := openTest(t, killed, small); count(t, c, "s") != 12 || count(t, c, "other") != 3 {
		t.Error("the whole journal has fewer events than were acknowledged")
	}
}

// A flipped bit in the journal may lose the events from there on, but it never
// changes an event. The store logs the loss, except if only the last record is
// damaged. A process that is killed while it writes a record leaves the same
// bytes.
func TestFlippedBitInTheJournalIsReported(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	s.keeper.stop()
	addDeltas(t, s, "s", 0, 12)
	killed := abandon(t, dir)
	whole := readFile(t, journalPath(killed))
	step := stepOf(5)
	for at := rand.IntN(step); at < len(whole); at += step {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		next := abandon(t, killed)
		if err := os.WriteFile(journalPath(next), flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		var logged bytes.Buffer
		c, err := open(t.Context(), Config{Dir: next, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, small)
		if err != nil {
			t.Fatal(err)
		}
		n := count(t, c, "s")
		for ev, err := range c.Read(t.Context(), "s", 0) {
			if want := delta("s", ev.Seq).Body; err != nil || ev.Body != want {
				t.Fatalf("bit of byte %d: event %d is %+v, %v", at, ev.Seq, ev, err)
			}
		}
		if n < 11 && !bytes.Contains(logged.Bytes(), []byte("journal is damaged")) {
			t.Errorf("bit of byte %d: %d of 12 events, and the log says only %q", at, n, logged.String())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Open ignores the journal of another log, and a journal whose events do not
// follow the end of the log.
func TestForeignJournalAddsNothing(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	s.keeper.stop()
	addDeltas(t, s, "s", 0, 12)
	journal := readFile(t, journalPath(dir))

	other := ownDir(t)
	o := openTest(t, other, small)
	addDeltas(t, o, "s", 0, 1)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journalPath(other), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	if o = openTest(t, other, small); count(t, o, "s") != 1 {
		t.Error("events of another log were taken")
	}

	early := abandon(t, dir) // its database lacks the events before the later journal
	fold(t, s)
	addDeltas(t, s, "s", 12, 5)
	late := readFile(t, journalPath(dir))
	if err := os.WriteFile(journalPath(early), late, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := openTest(t, early, small); count(t, e, "s") != 1 {
		t.Error("events were taken that do not follow the end of the log")
	}
}

// A store that cannot be opened leaves the journal for the next attempt.
func TestJournalSurvivesAFailedOpen(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	s.keeper.stop()
	addDeltas(t, s, "s", 0, 12)
	killed := abandon(t, dir)
	for _, call := range []string{"write", "sync", "truncate", "read", "open"} {
		d := newDisk(t)
		d.failing(func(c, file string) int32 {
			if c == call && (file == "runnel.journal" || call == "write") {
				return sqlite3.SQLITE_FULL
			}
			return 0
		})
		c, err := open(t.Context(), Config{Dir: killed, vfs: d.name, openJournal: d.journal}, small)
		if runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("Open with a failing %s: %v", call, err)
		}
		if err == nil {
			c.Close()
		}
	}
	if c := openTest(t, killed, small); count(t, c, "s") != 12 {
		t.Errorf("the journal has %d events left, want 12", count(t, c, "s"))
	}
}

// Deleting a session removes its events from the journal, too.
func TestDeletedSessionLeavesNothingInTheJournal(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	addDeltas(t, s, "s", 0, 12)
	if len(where(t, dir, "and then some")) == 0 {
		t.Fatal("the test finds nothing where there is something")
	}
	if err := s.DeleteSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	tidy(t, s)
	if found := where(t, dir, "and then some"); found != nil {
		t.Errorf("deleted, the session is still in %v", found)
	}
}

// A checkpoint may come between the deletion of a session and the removal of its
// rows. It copies these rows into the database file.
func TestCheckpointBeforeTheSweepLeavesNothingOfADeletedSession(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	s.keeper.stop()
	addDeltas(t, s, "s", 0, 12)
	if err := s.DeleteSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	inWriter(t, s, func(*sql.Conn) error { s.writer.truncate = true; return nil })
	inWriter(t, s, func(*sql.Conn) error { return nil }) // waits for the checkpoint
	if len(where(t, dir, "and then some")) == 0 {
		t.Fatal("the test finds nothing where there is something")
	}
	tidy(t, s)
	if found := where(t, dir, "and then some"); found != nil {
		t.Errorf("deleted, the session is still in %v", found)
	}
}

// BenchmarkPauses appends deltas at the rate of a fast model. The pauses
// between the calls are long enough that CPU caches and cores are cold at each
// call.
func BenchmarkPauses(b *testing.B) {
	s := benchStore(b)
	took := newTimes(b.N)
	var head int64
	tick := time.NewTicker(time.Second / 195)
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
		start := time.Now()
		if err := s.Append(b.Context(), "s", head, delta("s", head+1)); err != nil {
			b.Fatal(err)
		}
		head++
		took.since(start)
	}
	took.report(b)
}

// flushCounter counts the flushes of a journal.
type flushCounter struct {
	journalFile
	flushes int
}

func (c *flushCounter) Sync() error {
	c.flushes++
	return c.journalFile.Sync()
}

// A flush takes long on a slow disk, and Open has to wait for it. The journal
// of the second directory has events.
func TestOpenFlushesTheJournalOnce(t *testing.T) {
	dir := ownDir(t)
	for _, wantEvents := range []int{0, 3} {
		var file *flushCounter
		s, err := open(t.Context(), Config{Dir: dir, openJournal: func(path string) (journalFile, error) {
			f, err := openFile(path)
			file = &flushCounter{journalFile: f}
			return file, err
		}}, small)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if n := inDatabase(t, s, "s"); file.flushes != 1 || n != wantEvents {
			t.Errorf("%d flushes and %d events, want 1 and %d", file.flushes, n, wantEvents)
		}
		if wantEvents == 0 {
			addDeltas(t, s, "s", 0, 3)
			dir = abandon(t, dir)
		}
	}
}
