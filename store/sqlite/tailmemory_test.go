package sqlite

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// A provider may cut a delta out of a long text, such as the whole output of a
// command so far. The tail must not keep that text.
func TestTailsKeepOnlyTheTextOfADelta(t *testing.T) {
	const long, deltas = 1 << 20, 100
	s := openNew(t)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range int64(deltas) {
		whole := strings.Repeat("x", long) + strconv.FormatInt(i, 10)
		ev := delta("s", i+1)
		ev.Body = event.ItemDelta{ItemID: "item", DeltaContent: whole[long:]}
		if err := s.Append(t.Context(), "s", i, ev); err != nil {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+deltas*long/4 {
		t.Errorf("the heap grew by %d KiB for %d deltas of 2 bytes", (after-before)>>10, deltas)
	}
	runtime.KeepAlive(s)
}
