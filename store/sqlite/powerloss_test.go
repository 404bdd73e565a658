package sqlite

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// long allows tests to take minutes. make test-long sets it.
var long = os.Getenv("RUNNEL_LONG") != ""

// raced is set under the race detector, which makes the translated C code of
// SQLite ten times slower. Tests that repeat the same work then repeat it less
// often.
var raced bool

// memoryDir returns a new directory in memory if the system has one, because
// flushes cost nothing there. It is for tests that simulate the disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "runnel-sqlite-")
	if err != nil {
		return ownDir(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// An ack is an append that has returned without an error.
type ack struct {
	op      int // number of operations that the disk had recorded by then
	session string
	seq     int64
	strong  bool // the events must survive a power loss
}

// A powerRun uses one store, from Open to Close, and records the operations of
// its disk.
type powerRun struct {
	t       *testing.T
	disk    *disk
	store   *Store
	logID   string
	rnd     *rand.Rand
	acks    []ack
	said    map[string][]event.Event
	removed int // number of operations before the first compaction
}

// TestPowerLossLosesNothingDecided records the operations of a store on its
// disk and simulates power cuts at and between the flushes. Each write that was
// not flushed is kept, lost or torn, in random combinations. The store opens
// after every such power cut. It then has every event that was appended as a
// decision (see [event.Decides]). The events of each session begin with the
// first one and have no gap. If the log lacks events that readers saw, it has
// another id.
func TestPowerLossLosesNothingDecided(t *testing.T) {
	images, early := 120, 4
	switch {
	case long:
		images = 12000
	case raced, testing.Short():
		images, early = 50, 1
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := powerRun{t: t, disk: newDisk(t), rnd: rand.New(rand.NewPCG(seed, 1)), said: map[string][]event.Event{}}
	r.disk.record = true
	r.live(memoryDir(t))
	points := r.points()
	if len(points) < 50 {
		t.Fatalf("only %d moments to cut the power", len(points))
	}
	for range early { // cuts while the database is being created
		for _, at := range points[:8] {
			r.check(at, "garbage")
		}
	}
	made := 0
	seen := make(map[string]bool) // kinds of images that were checked
	for round := 0; made < images && !t.Failed(); round++ {
		for _, at := range points {
			kind := kinds[(round+at)%len(kinds)]
			if made++; made > images || t.Failed() {
				break
			}
			seen[kind] = true
			r.check(at, kind)
		}
	}
	t.Logf("%d images of %d operations, cut at %d moments", made, len(r.disk.ops), len(points))
	if len(seen) != len(kinds) && !t.Failed() {
		t.Errorf("only images of these kinds were made: %v", seen)
	}
}

// live makes the store append, checkpoint, compact and shrink.
func (r *powerRun) live(dir string) {
	s, err := open(r.t.Context(), Config{Dir: dir, vfs: r.disk.name, openJournal: r.disk.journal}, small)
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, r.logID = s, s.LogID()
	s.keeper.stop() // the test runs the maintenance itself
	s.keeper.pauseFactor = 0
	checkpoint := func() {
		inWriter(r.t, s, func(*sql.Conn) error { s.writer.pages, s.writer.truncate = maxPages, r.rnd.IntN(2) == 0; return nil })
		inWriter(r.t, s, func(*sql.Conn) error { return nil }) // waits for the checkpoint
	}
	for i := range 60 {
		r.add(fmt.Sprint("s", r.rnd.IntN(3)))
		if i%20 == 7 {
			checkpoint()
		}
	}
	r.removed = r.disk.recorded()
	if err := s.compactAll(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for i := range 20 {
		r.add(fmt.Sprint("s", r.rnd.IntN(3)))
		if i == 10 {
			checkpoint()
		}
	}
	tidy(r.t, s)
	r.add("s0")
	if err := s.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// add appends a few events to a session.
func (r *powerRun) add(session string) {
	head := int64(len(r.said[session]))
	evs := crashEvents(session, head, 1+r.rnd.IntN(12))
	if r.rnd.IntN(3) == 0 { // may need several pages
		evs[0].Body = event.ItemDelta{ItemID: "i", DeltaContent: fmt.Sprintf("%0*d", 1+r.rnd.IntN(9000), head)}
	}
	if err := r.store.Append(r.t.Context(), session, head, evs...); err != nil {
		r.t.Fatal(err)
	}
	r.said[session] = append(r.said[session], evs...)
	strong := slices.ContainsFunc(evs, func(ev event.Event) bool { return event.Decides(ev.Body) })
	r.acks = append(r.acks, ack{r.disk.recorded(), session, head + int64(len(evs)), strong})
}

// points returns the numbers of operations after which to cut the power: before
// and after each flush, and halfway between two flushes.
func (r *powerRun) points() (at []int) {
	last := 0
	for i, op := range r.disk.ops {
		if op.call == "sync" || op.call == "delete" || op.call == "create" {
			at = append(at, (last+i)/2, i, i+1)
			last = i + 1
		}
	}
	slices.Sort(at)
	return slices.Compact(append(at, len(r.disk.ops)))
}

// kinds are the kinds of images. Each kind treats the writes that were not
// flushed in a different way.
var kinds = []string{"lost", "kept", "subset", "beginning", "torn", "garbage"}

// A simFile is the state of a file at the moment of a power cut.
type simFile struct {
	durable []byte
	there   bool // the directory entry was flushed too
	pending []diskOp
}

// image returns the content of the files after a power cut that follows the
// operations r.disk.ops[:at]. kind, one of kinds, says what survives of the
// writes that were not flushed.
func (r *powerRun) image(at int, kind string) map[string][]byte {
	files := map[string]*simFile{"runnel.db": {there: true}}
	file := func(name string) *simFile {
		if files[name] == nil {
			files[name] = new(simFile)
		}
		return files[name]
	}
	for _, op := range r.disk.ops[:at] {
		switch f := file(op.file); op.call {
		case "sync":
			for _, p := range f.pending {
				f.durable = applied(f.durable, p)
			}
			f.pending, f.there = nil, true
		case "delete":
			*f = simFile{}
			if op.off == 0 { // the deletion was not flushed, so the file may still exist, empty or with old content
				delete(files, op.file)
			}
		default:
			f.pending = append(f.pending, op)
		}
	}
	out := make(map[string][]byte)
	for name, f := range files {
		lost := !f.there && (kind == "lost" || kind != "kept" && r.rnd.IntN(2) == 0)
		if !lost && (f.there || len(f.pending) > 0) {
			out[name] = r.cut(slices.Clone(f.durable), f.pending, kind)
		}
	}
	return out
}

// cut returns the content of a file after a power cut.
func (r *powerRun) cut(data []byte, pending []diskOp, kind string) []byte {
	switch kind {
	case "lost":
		return data
	case "beginning", "torn", "garbage":
		pending = pending[:r.rnd.IntN(len(pending)+1)]
	}
	for i, op := range pending {
		if kind == "subset" && r.rnd.IntN(2) == 0 {
			continue
		}
		if (kind == "torn" || kind == "garbage") && (i == len(pending)-1 || r.rnd.IntN(4) == 0) {
			op = r.torn(op, kind)
		}
		data = applied(data, op)
	}
	return data
}

// torn returns a write of which only the first bytes or sectors reached the
// disk. For the kind garbage, the other bytes are random.
func (r *powerRun) torn(op diskOp, kind string) diskOp {
	if op.call != "write" || len(op.data) == 0 {
		return op
	}
	n := r.rnd.IntN(len(op.data))
	if r.rnd.IntN(2) == 0 {
		n = n / 512 * 512
	}
	rest := make([]byte, len(op.data)-n)
	if kind == "torn" {
		op.data = op.data[:n]
		return op
	}
	for i := range rest { // the bytes that did not reach the disk are random
		rest[i] = byte(r.rnd.Uint32())
	}
	op.data = append(slices.Clone(op.data[:n]), rest...)
	return op
}

func applied(data []byte, op diskOp) []byte {
	switch op.call {
	case "write":
		if need := int(op.off) + len(op.data); need > len(data) {
			data = append(data, make([]byte, need-len(data))...)
		}
		copy(data[op.off:], op.data)
	case "truncate":
		if int(op.off) <= len(data) {
			return data[:op.off]
		}
		data = append(data, make([]byte, int(op.off)-len(data))...)
	}
	return data
}

// check opens the image of a power cut and compares its events with those that
// were appended.
func (r *powerRun) check(at int, kind string) {
	dir := memoryDir(r.t)
	defer os.RemoveAll(dir)
	for name, data := range r.image(at, kind) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	fail := func(format string, args ...any) {
		r.t.Helper()
		r.t.Errorf("power cut after operation %d of %d, %s: %s", at, len(r.disk.ops), kind, fmt.Sprintf(format, args...))
	}
	s, err := open(r.t.Context(), Config{Dir: dir, boot: "after the power loss"}, small)
	if err != nil {
		fail("Open: %v", err)
		return
	}
	defer s.Close()
	var verdict string
	if err := s.reader.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		fail("integrity_check: %s, %v", verdict, err)
	}
	ends := make(map[string]int64)
	for session, said := range r.said {
		for ev, err := range s.Read(r.t.Context(), session, 0) {
			if err != nil {
				fail("Read %s: %v", session, err)
				return
			}
			if ev.Seq != ends[session]+1 && at <= r.removed {
				fail("%s: %d follows %d", session, ev.Seq, ends[session])
			}
			if want := said[ev.Seq-1]; !reflect.DeepEqual(ev, want) {
				fail("%s: event %d is not what was written", session, ev.Seq)
			}
			ends[session] = ev.Seq
		}
		if st, err := s.State(r.t.Context(), session); err != nil || st.Head != ends[session] {
			fail("%s ends at %d, its state says %+v, %v", session, ends[session], st, err)
		}
		if err := s.Append(r.t.Context(), session, ends[session], done(session, ends[session]+1)); err != nil {
			fail("Append: %v", err)
		}
	}
	for _, a := range r.acks {
		if a.op <= at && ends[a.session] < a.seq && s.LogID() == r.logID {
			fail("%s ends at %d, %d was shown before operation %d, and the log has the same id", a.session, ends[a.session], a.seq, a.op)
			return
		}
		if a.op <= at && (a.strong || kind == "kept") && ends[a.session] < a.seq {
			fail("%s ends at %d, %d was acknowledged before operation %d", a.session, ends[a.session], a.seq, a.op)
			return
		}
	}
}
