package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"

	sqlite3 "modernc.org/sqlite/lib"
)

// faults are errors that a disk can return, with the call that returns each.
var faults = []struct {
	name, call string
	rc         int32
	message    string // part of the error message that a caller gets
	passes     bool   // no data can be lost, so the store accepts later writes
}{
	{"EIO write", "write", sqlite3.SQLITE_IOERR_WRITE, "disk reported an error", false}, // SQLite reports EROFS in the same way
	{"ENOSPC write", "write", sqlite3.SQLITE_FULL, "disk is full", true},
	{"EIO fsync", "sync", sqlite3.SQLITE_IOERR_FSYNC, "disk reported an error", false},
	{"EIO truncate", "truncate", sqlite3.SQLITE_IOERR_TRUNCATE, "disk reported an error", false},
	{"EIO read", "read", sqlite3.SQLITE_IOERR_READ, "disk reported an error", false},
	{"EROFS open", "open", sqlite3.SQLITE_CANTOPEN, "not writable", true},
	{"EIO shm", "shm", sqlite3.SQLITE_IOERR_SHMMAP, "disk reported an error", false},
	{"EIO delete", "delete", sqlite3.SQLITE_IOERR_DELETE, "disk reported an error", false},
}

// TestFailingSystemCallsLoseNothingAcknowledged makes the nth call of each kind
// fail, for every n if RUNNEL_LONG is set, else for some: either only that call,
// or that call and all later ones.
// The store keeps every acknowledged event. After a failure that may have lost
// data, no write succeeds. Opened again on a healthy disk, the store accepts
// writes.
func TestFailingSystemCallsLoseNothingAcknowledged(t *testing.T) {
	for _, f := range faults {
		for _, forever := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/forever=%v", f.name, forever), func(t *testing.T) {
				step := 15
				switch {
				case long:
					step = 1
				case raced, testing.Short():
					step = 20
				}
				n := 1 + rand.IntN(min(step, 3))
				runs := 0
				for ; !t.Failed(); n += step {
					calls, failed := 0, false
					r := faultRun{t: t, disk: newDisk(t), dir: memoryDir(t), passes: f.passes, message: f.message, name: fmt.Sprintf("%s at call %d", f.name, n)}
					r.disk.failing(func(call, file string) int32 {
						if call != f.call {
							return 0
						}
						if calls++; calls == n || forever && calls > n {
							failed = true
							return f.rc
						}
						return 0
					})
					r.run()
					r.disk.failing(nil)
					r.verify()
					if !failed {
						break
					}
					runs++
				}
				t.Logf("%d runs, the last with a failure of call %d", runs, n-step)
				if runs == 0 {
					t.Error("the call is never made")
				}
			})
		}
	}
}

// A faultRun uses one store, from Open to Close, on a disk that fails.
type faultRun struct {
	t       *testing.T
	disk    *disk
	dir     string
	name    string
	passes  bool
	message string
	acked   int64 // events of session s
	tried   int64 // acked, or one more if an append failed
	dead    bool  // a write failed, and the content of the disk is unknown
}

// step checks the outcome of a call that writes.
func (r *faultRun) step(what string, err error) {
	r.t.Helper()
	if err == nil {
		if r.dead {
			r.t.Errorf("%s: %s succeeds after a write failed", r.name, what)
		}
		return
	}
	if runnel.CodeOf(err) != runnel.StoreUnavailable {
		r.t.Errorf("%s: %s: %v, want %s", r.name, what, err, runnel.StoreUnavailable)
	}
	if !strings.Contains(runnel.Safe(err).Message, r.message) {
		r.t.Errorf("%s: %s: %v (%v), want %q", r.name, what, err, errors.Unwrap(err), r.message)
	}
	r.dead = !r.passes
}

func (r *faultRun) run() {
	ctx := context.Background()
	s, err := open(ctx, Config{Dir: r.dir, vfs: r.disk.name, openJournal: r.disk.journal}, small)
	if err != nil {
		r.step("Open", err)
		return
	}
	s.keeper.stop()
	s.keeper.pauseFactor = 0
	add := func(decided bool) {
		seq := r.acked + 1
		ev := delta("s", seq)
		if decided {
			ev = done("s", seq)
		}
		ev.At = fixtureTime
		r.tried = max(r.tried, seq)
		err := s.Append(ctx, "s", r.acked, ev)
		if r.step("Append", err); err == nil {
			r.acked++
		}
	}
	for i := range 6 {
		add(i%2 == 1)
	}
	r.step("PutSession", s.PutSession(ctx, fixtureSession))
	r.look(s, false)
	if !r.dead {
		_ = s.submit(ctx, &job{do: func(w *writer) error { w.pages, w.truncate = maxPages, true; return nil }}) // a checkpoint follows
	}
	for i := range 4 {
		add(i%2 == 0)
	}
	_ = s.compactAll(ctx)
	r.step("DeleteSession", s.DeleteSession(ctx, "other"))
	r.look(s, false)
	if err := s.Close(); err != nil && runnel.CodeOf(err) != runnel.StoreUnavailable {
		r.t.Errorf("%s: Close: %v", r.name, err)
	}
}

// look reads all events of session s. It checks that they are unchanged and
// that none is missing, unless Read returns an error.
func (r *faultRun) look(s *Store, healthy bool) {
	r.t.Helper()
	last := int64(0)
	for ev, err := range s.Read(context.Background(), "s", 0) {
		if err != nil {
			if healthy || runnel.CodeOf(err) != runnel.StoreUnavailable {
				r.t.Errorf("%s: Read: %v", r.name, err)
			}
			return
		}
		want := delta("s", last+1)
		if decided := ev.Body; reflect.DeepEqual(decided, done("s", last+1).Body) {
			want = done("s", last+1)
		}
		if want.At = fixtureTime; !reflect.DeepEqual(ev, want) {
			r.t.Errorf("%s: event %d is %+v", r.name, last+1, ev)
		}
		last = ev.Seq
	}
	// An append that failed may still have reached the disk, but only
	// completely.
	if last < r.acked || last > r.tried || !healthy && last != r.acked {
		r.t.Errorf("%s: %d events, %d were acknowledged and %d tried; healthy: %v", r.name, last, r.acked, r.tried, healthy)
	}
}

// verify opens the store again on a healthy disk. It checks the events and the
// database, and appends one more event.
func (r *faultRun) verify() {
	s, err := open(context.Background(), Config{Dir: r.dir}, small)
	if err != nil {
		r.t.Errorf("%s: Open on a healthy disk: %v", r.name, err)
		return
	}
	defer s.Close()
	r.look(s, true)
	var verdict string
	if err := s.reader.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		r.t.Errorf("%s: integrity_check: %s, %v", r.name, verdict, err)
	}
	st, err := s.State(context.Background(), "s")
	if err == nil {
		err = s.Append(context.Background(), "s", st.Head, delta("s", st.Head+1))
	}
	if err != nil {
		r.t.Errorf("%s: Append on a healthy disk: %v", r.name, err)
	}
}

// TestNoWriteAfterAFailedFlush makes one flush fail and all later ones succeed.
// The store must not write again until it is reopened.
func TestNoWriteAfterAFailedFlush(t *testing.T) {
	d, dir := newDisk(t), ownDir(t)
	s, err := open(t.Context(), Config{Dir: dir, vfs: d.name, openJournal: d.journal}, small)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Append(t.Context(), "s", 0, done("s", 1)); err != nil {
		t.Fatal(err)
	}
	once := true
	d.failing(func(call, file string) int32 {
		if call == "sync" && once {
			once = false
			return sqlite3.SQLITE_IOERR_FSYNC
		}
		return 0
	})
	for range 3 {
		err := s.Append(t.Context(), "s", 1, done("s", 2))
		if runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Fatalf("Append after a failed flush: %v", err)
		}
		wants(t, runnel.Safe(err).Message, "disk reported an error", "restart")
		if n := count(t, s, "s"); n != 1 {
			t.Errorf("%d events can be read, want 1", n)
		}
	}
	if once {
		t.Fatal("nothing was flushed")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s = openTest(t, dir, small)
	st, err := s.State(t.Context(), "s")
	if err != nil || st.Head < 1 || st.Head > 2 {
		t.Fatalf("State: %+v, %v", st, err)
	}
	if err := s.Append(t.Context(), "s", st.Head, done("s", st.Head+1)); err != nil {
		t.Errorf("Append to the store opened again: %v", err)
	}
}

// TestFailedCheckpointFailsTheNextAppend makes the flush of a checkpoint fail.
// No caller waits for the checkpoint, so the next Append returns the error.
func TestFailedCheckpointFailsTheNextAppend(t *testing.T) {
	d := newDisk(t)
	s, err := open(t.Context(), Config{Dir: ownDir(t), vfs: d.name, openJournal: d.journal}, small)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Append(t.Context(), "s", 0, done("s", 1)); err != nil {
		t.Fatal(err)
	}
	inWriter(t, s, func(*sql.Conn) error {
		d.failing(func(call, file string) int32 {
			if call == "sync" && file == "runnel.db" {
				return sqlite3.SQLITE_IOERR_FSYNC
			}
			return 0
		})
		s.writer.pages = maxPages
		return nil
	})
	if err := s.Append(t.Context(), "s", 1, done("s", 2)); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("Append after a checkpoint that failed: %v", err)
	}
}
