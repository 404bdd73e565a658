package sqlite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// TestFirstReadAfterAKillIsDurable opens the files of a process that was killed
// after writes that it had not flushed. The next server reads these events and
// may act on them, for example by sending a decision to an agent. Open
// therefore flushes them first, so that they survive a power loss.
func TestFirstReadAfterAKillIsDurable(t *testing.T) {
	r := powerRun{t: t, disk: newDisk(t), rnd: rand.New(rand.NewPCG(1, 1)), said: map[string][]event.Event{}}
	r.disk.record = true
	dir, next := memoryDir(t), memoryDir(t)
	defer os.RemoveAll(dir)
	defer os.RemoveAll(next)
	open := func(dir string) *Store {
		s, err := open(t.Context(), Config{Dir: dir, vfs: r.disk.name, openJournal: r.disk.journal}, small)
		if err != nil {
			t.Fatal(err)
		}
		s.keeper.stop()
		return s
	}
	before := open(dir)
	defer before.Close()
	r.store = before
	r.add("s0")
	head := int64(len(r.said["s0"]))
	for i := range int64(5) {
		evs := crashEvents("s0", head+i, 1)
		evs[0].Body = event.ItemDelta{ItemID: "i", DeltaContent: "not flushed"}
		if err := before.Append(t.Context(), "s0", head+i, evs...); err != nil {
			t.Fatal(err)
		}
		r.said["s0"] = append(r.said["s0"], evs...)
	}
	for _, name := range []string{"runnel.db", "runnel.db-wal", "runnel.journal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(next, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	after := open(next)
	defer after.Close()
	st, err := after.State(t.Context(), "s0")
	if err != nil || st.Head != head+5 {
		t.Fatalf("the next process finds %+v, %v", st, err)
	}
	at := r.disk.recorded()
	r.acks, r.removed = []ack{{at, "s0", st.Head, true}}, at
	r.check(at, "lost")
}
