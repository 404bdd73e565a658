package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// restored copies a backup into a new data directory, as the documentation
// describes, and opens it.
func restored(t *testing.T, file string) *Store {
	t.Helper()
	dir := filepath.Join(ownDir(t), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runnel.db"), readFile(t, file), 0o644); err != nil {
		t.Fatal(err)
	}
	return openTest(t, dir, small)
}

// TestBackupWhileWritingHoldsEverythingAcknowledged copies a store in which
// four goroutines append and checkpoints run. Each copy has every event that
// was acknowledged before the backup started, and every event in it is
// unchanged. The goroutines continue to append.
func TestBackupWhileWritingHoldsEverythingAcknowledged(t *testing.T) {
	dir, out := ownDir(t), ownDir(t)
	s, err := open(t.Context(), Config{Dir: dir, CompactAfter: -1}, small) // the test may take longer than the default of a minute
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	var acked [4]atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for w := range acked {
		session := fmt.Sprint("s", w)
		wg.Go(func() {
			for head := int64(0); ctx.Err() == nil; head++ {
				if err := s.Append(context.Background(), session, head, crashEvents(session, head, 1)...); err != nil {
					t.Error(err)
					return
				}
				acked[w].Store(head + 1)
			}
		})
	}
	rounds := 8
	if long {
		rounds = 100
	}
	for i := range rounds {
		var before [len(acked)]int64
		for w := range before {
			before[w] = acked[w].Load()
		}
		if i == rounds/2 {
			inWriter(t, s, func(*sql.Conn) error { s.writer.pages = maxPages; return nil })
		}
		file := filepath.Join(out, fmt.Sprint(i))
		backup := s.Backup
		if i%2 == 1 { // as another process would
			backup = func(ctx context.Context, file string) error { return Backup(ctx, dir, file) }
		}
		if err := backup(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup has mode %v, %v", info.Mode(), err)
		}
		c := restored(t, file)
		for w, want := range before {
			session, last := fmt.Sprint("s", w), int64(0)
			for ev, err := range c.Read(t.Context(), session, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if exp := crashEvents(session, last, 1)[0]; !reflect.DeepEqual(ev, exp) {
					t.Fatalf("event %d is %+v, want %+v", last+1, ev, exp)
				}
				last = ev.Seq
			}
			if last < want {
				t.Errorf("backup %d has %d events of %s, %d were acknowledged before", i, last, session, want)
			}
			if err := c.Append(t.Context(), session, last, crashEvents(session, last, 1)...); err != nil {
				t.Error(err)
			}
		}
		if got := pragma(t, c.writer.conn, "auto_vacuum"); got != "2" {
			t.Errorf("auto_vacuum of the copy is %s", got)
		}
	}
	was := acked[0].Load()
	for acked[0].Load() == was && !t.Failed() { // wait until a writer has appended again
		inWriter(t, s, func(*sql.Conn) error { return nil })
	}
}

func TestBackupWithoutServer(t *testing.T) {
	dir, out := ownDir(t), ownDir(t)
	s := openTest(t, dir, small)
	fillFixture(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, "it's a copy?mode=memory")
	if err := Backup(t.Context(), dir, file); err != nil {
		t.Fatal(err)
	}
	copied := restored(t, file)
	rec, err := copied.Session(t.Context(), fixtureQueued.Session)
	if err != nil || !rec.QueueHeld {
		t.Errorf("the queue of the copy is held: %t (%v)", rec.QueueHeld, err)
	}
	rec.QueueHeld = false // all else is as in the original
	if err := copied.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	checkFixture(t, copied)
	s = openTest(t, dir, small)
	checkFixture(t, s)
}

// TestRefusedBackupLeavesAndOverwritesNothing requests backups that must fail.
// They leave no file behind and overwrite none.
func TestRefusedBackupLeavesAndOverwritesNothing(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	fillFixture(t, s)
	for name, tt := range map[string]struct{ dir, file, says string }{
		"there already": {dir, filepath.Join(dir, "lock"), "already exists"},
		"no directory":  {dir, filepath.Join(dir, "none", "f"), "the directory does not exist"},
		"no store":      {ownDir(t), filepath.Join(dir, "f"), "there is no database"},
	} {
		err := Backup(t.Context(), tt.dir, tt.file)
		if c := runnel.CodeOf(err); c != runnel.StoreUnavailable && c != runnel.InvalidRequest {
			t.Fatalf("%s: %v", name, err)
		}
		wants(t, runnel.Safe(err).Message, tt.says)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, filepath.Join(dir, "f")); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 6 { // lock, reserve, journal and three files of the database
		t.Errorf("the directory holds %v, %v", files, err)
	}
	checkFixture(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), filepath.Join(dir, "f")); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("closed: %v", err)
	}
}

// The server of the original may run the prompts that waited when the backup was
// made. A server on the copy must not run them again by itself.
func TestBackupHoldsQueues(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	for _, id := range []string{"waits", "idle"} {
		if err := s.PutSession(t.Context(), store.Session{ID: id, State: event.StateOpen}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Enqueue(t.Context(), store.Queued{Session: "waits", Turn: "t", Input: []byte("{}"), About: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(ownDir(t), "backup")
	if err := s.Backup(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		*Store
		id   string
		held bool
	}{{"the original", s, "waits", false}, {"the copy", restored(t, file), "waits", true}, {"the copy", restored(t, file), "idle", false}} {
		if got, err := tt.Session(t.Context(), tt.id); err != nil || got.QueueHeld != tt.held {
			t.Errorf("%s: the queue of %s is held: %t, want %t (%v)", tt.name, tt.id, got.QueueHeld, tt.held, err)
		}
	}
}

// A restored backup has a log id of its own, because its log and the original
// continue with different events.
func TestRestoredBackupIsAnotherLog(t *testing.T) {
	dir, out := ownDir(t), ownDir(t)
	s := openTest(t, dir, small)
	id := s.LogID()
	file := filepath.Join(out, "backup")
	if err := s.Backup(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{"": true, id: true}
	for range 2 { // two restored copies of one backup have different ids
		copied := restored(t, file)
		if seen[copied.LogID()] {
			t.Errorf("the backup is %q, what it was made of %q", copied.LogID(), id)
		}
		seen[copied.LogID()] = true
		path, now := filepath.Dir(copied.writer.path), copied.LogID()
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		if again := openTest(t, path, small); again.LogID() != now {
			t.Errorf("opened again it is %q, it was %q", again.LogID(), now)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := openTest(t, dir, small); again.LogID() != id {
		t.Errorf("after a restart it is %q, it was %q", again.LogID(), id)
	}
}
