package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// damaged is a copy of a store whose files the tests damage.
type damaged struct {
	db, wal []byte
	said    map[string][]event.Event
	dir     string
}

// written returns a copy of a store with about 100 KiB of events. The events
// are in the database, or if crashed is set, in the write-ahead log as after a
// crash.
func written(t *testing.T, crashed bool) damaged {
	t.Helper()
	d := damaged{said: map[string][]event.Event{}, dir: memoryDir(t)}
	dir := ownDir(t)
	s, err := open(t.Context(), Config{Dir: dir, CompactAfter: -1}, small)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	appends := 300
	if raced || testing.Short() {
		appends = 100
	}
	for i := range appends {
		session := fmt.Sprint("s", i%3)
		head := int64(len(d.said[session]))
		evs := crashEvents(session, head, 2)
		if err := s.Append(t.Context(), session, head, evs...); err != nil {
			t.Fatal(err)
		}
		d.said[session] = append(d.said[session], evs...)
	}
	if crashed {
		fold(t, s)
		d.wal = readFile(t, filepath.Join(dir, "runnel.db-wal"))
	} else if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.db = readFile(t, filepath.Join(dir, "runnel.db"))
	return d
}

// outcome is the result of reading a damaged store.
type outcome struct {
	failed bool // opening or reading returned an error
	short  bool // events are missing
	sound  bool // SQLite's integrity check found nothing wrong
}

// read opens a store with these files. It checks that each session has its
// first events unchanged and without gaps.
func (d damaged) read(t *testing.T, what string, db, wal []byte) (o outcome) {
	t.Helper()
	dir := filepath.Join(d.dir, "store")
	if err := os.MkdirAll(dir, 0o700); err != nil { // reused by all calls, because creating its reserve takes longest
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "runnel.db-shm")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"runnel.db": db, "runnel.db-wal": wal} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := open(t.Context(), Config{Dir: dir, CompactAfter: -1}, small)
	if err != nil {
		if runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("%s: Open: %v", what, err)
		}
		return outcome{failed: true}
	}
	defer s.Close()
	for session, said := range d.said {
		last := int64(0)
		for ev, err := range s.Read(t.Context(), session, 0) {
			if err != nil {
				if runnel.CodeOf(err) != runnel.StoreUnavailable {
					t.Errorf("%s: Read: %v, want %s", what, err, runnel.StoreUnavailable)
				}
				o.failed = true
				break
			}
			if ev.Seq != last+1 || !reflect.DeepEqual(ev, said[last]) {
				t.Errorf("%s: served %+v after %d", what, ev, last)
			}
			last = ev.Seq
		}
		o.short = o.short || last < int64(len(said))
	}
	var verdict string
	if err := s.reader.db.QueryRow("PRAGMA integrity_check(1)").Scan(&verdict); err == nil {
		o.sound = verdict == "ok"
	}
	return o
}

// places returns positions in the last n bytes of a file of size bytes. It
// returns all n positions if RUNNEL_LONG is set, and otherwise a random
// selection.
func places(size, n int) []int {
	n = min(n, size)
	if long {
		all := make([]int, n)
		for i := range all {
			all[i] = size - n + i
		}
		return all
	}
	some := make([]int, 60)
	if raced || testing.Short() {
		some = some[:20]
	}
	for i := range some {
		some[i] = size - n + rand.IntN(n)
	}
	return some
}

// TestTornWriteAheadLogKeepsWholeTransactions cuts off the end of the
// write-ahead log at many positions. The store still has the transactions that
// are complete before the cut.
func TestTornWriteAheadLogKeepsWholeTransactions(t *testing.T) {
	d := written(t, true)
	if len(d.wal) < 64<<10 {
		t.Fatalf("the write-ahead log has only %d bytes", len(d.wal))
	}
	shorter := 0
	for _, at := range places(len(d.wal), 64<<10) {
		o := d.read(t, fmt.Sprint("cut at ", at), d.db, d.wal[:at])
		if o.failed || !o.sound {
			t.Errorf("cut at %d of %d: %+v", at, len(d.wal), o)
		}
		if o.short {
			shorter++
		}
	}
	if shorter == 0 {
		t.Error("no cut took anything away: nothing was tested")
	}
	if o := d.read(t, "whole", d.db, d.wal); o.failed || o.short {
		t.Errorf("the whole log: %+v", o)
	}
}

// TestFlippedBitsOfTheWriteAheadLogEndIt flips bits of the write-ahead log.
// SQLite ignores the log from the damaged frame on.
func TestFlippedBitsOfTheWriteAheadLogEndIt(t *testing.T) {
	d := written(t, true)
	for _, at := range places(len(d.wal), 64<<10) {
		wal := append([]byte(nil), d.wal...)
		wal[at] ^= 1 << rand.IntN(8)
		if o := d.read(t, fmt.Sprint("flip at ", at), d.db, wal); o.failed || !o.sound {
			t.Errorf("flip at %d of %d: %+v", at, len(wal), o)
		}
	}
}

// TestFlippedBitsOfTheDatabaseAreReported flips bits of the database. The store
// never returns a changed event. If events are missing, Open or Read returns an
// error, or SQLite's integrity check reports a damaged index.
func TestFlippedBitsOfTheDatabaseAreReported(t *testing.T) {
	d := written(t, false)
	var reported, harmless, hidden int
	for _, at := range places(len(d.db), 64<<10) {
		db := append([]byte(nil), d.db...)
		db[at] ^= 1 << rand.IntN(8)
		switch o := d.read(t, fmt.Sprint("flip at ", at), db, nil); {
		case o.failed:
			reported++
		case !o.short:
			harmless++
		case !o.sound:
			hidden++
		default:
			t.Errorf("flip at %d: events are missing and nobody says so", at)
		}
	}
	t.Logf("%d flips were reported, %d touched nothing that is read, %d hid the end of a log and are found by a check", reported, harmless, hidden)
	if reported <= 3*hidden {
		t.Errorf("%d flips were reported and %d not", reported, hidden)
	}
}

// TestDamagedIndexIsReported damages an index so that it no longer finds a
// session. Readers cannot detect that, but the store's own integrity check logs
// it.
func TestDamagedIndexIsReported(t *testing.T) {
	d := written(t, false)
	hidden := 0
	for at := len(d.db); hidden == 0; {
		if at = bytes.LastIndex(d.db[:at], []byte("s1")); at < 0 {
			t.Fatal("no damage is hidden: this test tests nothing")
		}
		db := bytes.Clone(d.db)
		db[at] = 'r'
		if o := d.read(t, fmt.Sprint("name at ", at), db, nil); o.failed || !o.short {
			continue
		}
		hidden++
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			s, err := open(t.Context(), Config{Dir: filepath.Join(d.dir, "store"), Logger: slog.New(slog.NewTextHandler(&logged, nil))}, small)
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * checkAfter)
			synctest.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wants(t, logged.String(), "level=ERROR", "damaged", "restore a backup")
		})
	}
}
