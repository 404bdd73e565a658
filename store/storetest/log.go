// Package storetest holds the test suites for implementations of the log and
// the catalogue. An implementation calls these suites from its own tests.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// RunLog tests a log. Each call of open returns an empty log and registers its
// own cleanup with t. open may run inside a synctest bubble. Run
// [RunSubscribeRace] too.
func RunLog(t *testing.T, open func(t *testing.T) runnel.Log) {
	tests := []struct {
		name string
		run  func(*testing.T, runnel.Log)
	}{
		{"Empty", testEmpty},
		{"Append", testAppend},
		{"AppendNothing", testAppendNothing},
		{"Conflict", testConflict},
		{"Invalid", testInvalid},
		{"RoundTrip", testRoundTrip},
		{"Times", testTimes},
		{"Cursors", testCursors},
		{"Abandoned", testAbandoned},
		{"Nested", testNested},
		{"ReadWhileGrowing", testReadWhileGrowing},
		{"ReadCancelled", testReadCancelled},
		{"AppendCancelled", testAppendCancelled},
		{"Grown", testGrown},
		{"State", testState},
		{"StateOfManyTurns", testStateOfManyTurns},
		{"Checkpoints", testCheckpoints},
		{"Heads", testHeads},
		{"ConcurrentSessions", testConcurrentSessions},
		{"CompetingWriters", testCompetingWriters},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t)) })
	}
	t.Run("ManyReaders", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testManyReaders(t, open(t)) })
	})
}

var exact = cmp.Options{
	// Logs may re-encode JSON inside events if its value stays the same.
	cmp.Comparer(func(a, b json.RawMessage) bool {
		return (a == nil) == (b == nil) && reflect.DeepEqual(parsed(a), parsed(b))
	}),
}

func parsed(raw json.RawMessage) any {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return v
}

func collect(t *testing.T, log runnel.Log, session string, after int64) []event.Event {
	t.Helper()
	evs := []event.Event{}
	for ev, err := range log.Read(t.Context(), session, after) {
		if err != nil {
			t.Fatalf("Read(%q, %d): %v", session, after, err)
		}
		evs = append(evs, ev)
	}
	checkTail(t, log, session, after, evs)
	return evs
}

// checkTail fails the test if Tail returns other events than Read, which has
// returned evs. Meanwhile the log may have grown.
func checkTail(t *testing.T, log runnel.Log, session string, after int64, evs []event.Event) {
	t.Helper()
	tr, ok := log.(store.TailReader)
	if !ok || after < 0 {
		return
	}
	for _, most := range []int{1, 3, len(evs) + 1} {
		got, known := tr.Tail(session, after, []event.Event{}, most, math.MaxInt)
		if !known {
			continue
		}
		n := min(len(got), len(evs))
		if n < min(most, len(evs)) {
			t.Fatalf("Tail(%q, %d) returned %d events, want %d", session, after, len(got), min(most, len(evs)))
		}
		if d := cmp.Diff(evs[:n], got[:n]); d != "" {
			t.Fatalf("Tail(%q, %d) (-read +tail):\n%s", session, after, d)
		}
	}
}

func appendAll(t *testing.T, log runnel.Log, session string, head int64, evs ...event.Event) {
	t.Helper()
	if err := log.Append(t.Context(), session, head, evs...); err != nil {
		t.Fatalf("Append(%q, %d, %d events): %v", session, head, len(evs), err)
	}
}

func state(t *testing.T, log runnel.Log, session string) runnel.LogState {
	t.Helper()
	st, err := log.State(t.Context(), session)
	if err != nil {
		t.Fatalf("State(%q): %v", session, err)
	}
	if len(st.Open) == 0 {
		st.Open = nil
	}
	return st
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // a hundred times faster than cmp.Diff
		return
	}
	if d := cmp.Diff(want, got, exact); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func testEmpty(t *testing.T, log runnel.Log) {
	equal(t, "events", collect(t, log, "s", 0), []event.Event{})
	equal(t, "state", state(t, log, "s"), runnel.LogState{})
	if isClosed(log.Grown("s", 0)) {
		t.Error("an empty log has grown")
	}
}

func testAppend(t *testing.T, log runnel.Log) {
	all := deltas("s", 0, 6)
	for _, cut := range [][2]int{{0, 1}, {1, 4}, {4, 6}} {
		appendAll(t, log, "s", int64(cut[0]), all[cut[0]:cut[1]]...)
		equal(t, "events", collect(t, log, "s", 0), all[:cut[1]])
	}
	other := deltas("other", 0, 1)
	appendAll(t, log, "other", 0, other...)
	equal(t, "first session", collect(t, log, "s", 0), all)
	equal(t, "second session", collect(t, log, "other", 0), other)
}

func testAppendNothing(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0)
	appendAll(t, log, "s", 0, deltas("s", 0, 2)...)
	grown := log.Grown("s", 2)
	appendAll(t, log, "s", 2)
	if isClosed(grown) {
		t.Error("appending no events woke a reader")
	}
	if err := log.Append(t.Context(), "s", 1); !errors.Is(err, runnel.ErrConflict) {
		t.Errorf("appending no events at the wrong position: %v, want ErrConflict", err)
	}
}

func testConflict(t *testing.T, log runnel.Log) {
	want := deltas("s", 0, 3)
	appendAll(t, log, "s", 0, want...)
	for _, head := range []int64{0, 1, 2, 4, 1000, math.MaxInt64 - 8} {
		if err := log.Append(t.Context(), "s", head, deltas("s", head, 2)...); !errors.Is(err, runnel.ErrConflict) {
			t.Errorf("Append at %d: %v, want ErrConflict", head, err)
		}
	}
	if err := log.Append(t.Context(), "new", 1, deltas("new", 1, 1)...); !errors.Is(err, runnel.ErrConflict) {
		t.Errorf("Append at 1 of an empty log: %v, want ErrConflict", err)
	}
	equal(t, "events", collect(t, log, "s", 0), want)
	equal(t, "state of new", state(t, log, "new"), runnel.LogState{})
	more := deltas("s", 3, 1)
	appendAll(t, log, "s", 3, more...)
	equal(t, "events after conflicts", collect(t, log, "s", 0), append(want, more...))
}

func testInvalid(t *testing.T, log runnel.Log) {
	want := deltas("s", 0, 2)
	appendAll(t, log, "s", 0, want...)
	grown := log.Grown("s", 2)
	bodies := map[string]event.Body{
		"no body":    nil,
		"itemId":     event.ItemDelta{},
		"finalItem":  event.ItemDone{ItemID: "i"},
		"arguments":  event.ItemDone{ItemID: "i", FinalItem: event.FunctionCall{Name: "n", CallID: "c", Arguments: json.RawMessage(`{`)}},
		"itemType":   event.ItemStart{ItemID: "i", ItemType: "picture"},
		"providerId": event.ResponseStart{},
		"choices":    event.ApprovalRequested{Approval: event.Approval{ID: "a", Kind: event.ApprovalTool, Arguments: json.RawMessage(`{}`)}},
	}
	bad := make(map[string][]event.Event)
	for field, b := range bodies {
		bad[field] = append(deltas("s", 2, 2), numbered("s", "t1", 4, b)...)
	}
	for field, broken := range map[string]func(*event.Event){
		"sessionId": func(ev *event.Event) { ev.Session = "other" },
		"seq":       func(ev *event.Event) { ev.Seq++ },
	} {
		evs := deltas("s", 2, 3)
		broken(&evs[1])
		bad[field] = evs
	}
	unstamped := deltas("s", 2, 1)
	unstamped[0].Seq = 0
	bad["seq: 0"] = unstamped
	for field, evs := range bad {
		err := log.Append(t.Context(), "s", 2, evs...)
		if runnel.CodeOf(err) != runnel.InvalidStreamEvent || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: Append: %v, want %s naming the field", field, err, runnel.InvalidStreamEvent)
		}
	}
	if err := log.Append(t.Context(), "s", -1, deltas("s", -1, 1)...); err == nil {
		t.Error("Append at -1 was accepted")
	}
	equal(t, "events", collect(t, log, "s", 0), want)
	if isClosed(grown) {
		t.Error("a rejected append woke a reader")
	}
}

func testRoundTrip(t *testing.T, log runnel.Log) {
	bodies := samples()
	seen := make(map[string]bool)
	for _, b := range bodies {
		seen[event.Type(b)] = true
	}
	for _, typ := range event.Types() {
		if !seen[typ] {
			t.Errorf("no sample of %s", typ)
		}
	}
	want := numbered("s", "t1", 0, bodies...)
	want = append(want, numbered("s", "", int64(len(want)), event.Notice{Level: event.LevelInfo, Code: "between turns"})...)
	for _, ev := range want { // one by one, so that a failure names the event
		appendAll(t, log, "s", ev.Seq-1, ev)
	}
	got := collect(t, log, "s", 0)
	for i := range min(len(got), len(want)) {
		if d := cmp.Diff(want[i], got[i], exact); d != "" {
			t.Errorf("event %d, %s (-want +got):\n%s", i+1, event.Type(want[i].Body), d)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	again := numbered("again", "t1", 0, bodies...)
	appendAll(t, log, "again", 0, again...)
	equal(t, "events appended at once", collect(t, log, "again", 0), again)
}

func testTimes(t *testing.T, log runnel.Log) {
	times := []time.Time{
		{}, time.Unix(0, 0), time.Unix(0, 1), time.Unix(-1, 0), at, time.Now(),
		at.In(time.FixedZone("", 5*3600+1800)),
		time.Date(1, 2, 3, 4, 5, 6, 7, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
	}
	var want []event.Event
	for i, tm := range times {
		ev := deltas("s", int64(i), 1)[0]
		ev.At = tm
		want = append(want, ev)
	}
	appendAll(t, log, "s", 0, want...)
	equal(t, "events", collect(t, log, "s", 0), want)
}

func testCursors(t *testing.T, log runnel.Log) {
	for _, n := range []int{1, 7, 1500} { // 1500: more than any implementation caches
		session := fmt.Sprint("s", n)
		all := deltas(session, 0, n)
		appendAll(t, log, session, 0, all[:n/2]...)
		appendAll(t, log, session, int64(n/2), all[n/2:]...)
		last := int64(n)
		for _, after := range []int64{0, 1, last / 2, last - 1, last, last + 1, math.MaxInt64, -1, math.MinInt64} {
			want := all[min(max(after, 0), last):]
			equal(t, fmt.Sprintf("events of %d after %d", n, after), collect(t, log, session, after), want)
			if got := isClosed(log.Grown(session, after)); got != (after < last) {
				t.Errorf("Grown(%d) of %d = %v", after, n, got)
			}
		}
	}
}

func testAbandoned(t *testing.T, log runnel.Log) {
	all := deltas("s", 0, 1500)
	appendAll(t, log, "s", 0, all...)
	for range 50 {
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if err != nil || ev.Seq == 3 {
				break
			}
		}
	}
	equal(t, "events after abandoned reads", collect(t, log, "s", 0), all)
}

// testNested begins a read inside another read, 40 levels deep. That is more
// than the connections that any implementation has for readers.
func testNested(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 3000)...)
	var read func(depth int) int64
	read = func(depth int) int64 {
		var sum int64
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatalf("Read at depth %d: %v", depth, err)
			}
			if depth == 0 {
				return 1
			}
			return ev.Seq + read(depth-1)
		}
		return sum
	}
	if got := read(40); got != 41 {
		t.Errorf("nested reads found %d first events, want 41", got)
	}
}

// testReadWhileGrowing checks that a log may be appended to during a read, even
// by its reader. The reader sees no gaps and no repeated events.
func testReadWhileGrowing(t *testing.T, log runnel.Log) {
	head := int64(1500)
	appendAll(t, log, "s", 0, deltas("s", 0, int(head))...)
	var last int64
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Seq != last+1 {
			t.Fatalf("%d follows %d", ev.Seq, last)
		}
		last = ev.Seq
		if last%10 == 0 && last <= 1500 {
			appendAll(t, log, "s", head, deltas("s", head, 3)...)
			head += 3
		}
	}
	if last < 1500 {
		t.Errorf("Read stopped at %d, before the end of the log at its start", last)
	}
	for i, ev := range collect(t, log, "s", last) {
		if ev.Seq != last+int64(i)+1 {
			t.Fatalf("seq %d at index %d after %d", ev.Seq, i, last)
		}
	}
}

func testReadCancelled(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 3000)...)
	for _, stop := range []int64{0, 1, 2999} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if stop == 0 {
			cancel()
		}
		var last int64
		var failed error
		for ev, err := range log.Read(ctx, "s", 0) {
			if failed != nil {
				t.Fatal("Read goes on after an error")
			}
			if failed = err; err != nil {
				continue
			}
			if last = ev.Seq; last == stop {
				cancel()
			}
		}
		if last != stop || !errors.Is(failed, context.Canceled) {
			t.Errorf("cancelled at %d: read up to %d, then %v", stop, last, failed)
		}
	}
	if _, err := log.State(t.Context(), "s"); err != nil {
		t.Errorf("State after cancelled reads: %v", err)
	}
}

// testAppendCancelled checks that an append with a cancelled context either
// returns the context's error and adds nothing, or succeeds and adds
// everything.
func testAppendCancelled(t *testing.T, log runnel.Log) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Append(ctx, "s", 0, deltas("s", 0, 1)...); !errors.Is(err, context.Canceled) {
		t.Fatalf("Append with a context that has ended: %v", err)
	}
	var wg sync.WaitGroup
	for w := range 4 { // several writers, so that some have to wait
		session := fmt.Sprint("s", w)
		wg.Go(func() {
			var head int64
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				err := log.Append(ctx, session, head, deltas(session, head, 3)...)
				switch {
				case err == nil:
					head += 3
				case !errors.Is(err, context.Canceled):
					t.Errorf("Append: %v", err)
				}
				if st, err := log.State(t.Context(), session); err != nil || st.Head != head {
					t.Errorf("%s ends at %d, %v, want %d", session, st.Head, err, head)
					return
				}
			}
		})
	}
	wg.Wait()
}

func testGrown(t *testing.T, log runnel.Log) {
	first, other := log.Grown("s", 0), log.Grown("other", 0)
	beyond := log.Grown("s", 100)
	appendAll(t, log, "s", 0, deltas("s", 0, 2)...)
	if !isClosed(first) {
		t.Error("Grown(0) is open after two events")
	}
	if isClosed(other) {
		t.Error("another session's Grown is closed")
	}
	appendAll(t, log, "s", 2, deltas("s", 2, 200)...)
	if !isClosed(beyond) {
		t.Error("Grown(100) is open after 202 events")
	}
	for after, want := range map[int64]bool{-1: true, 0: true, 201: true, 202: false, 203: false, math.MaxInt64: false} {
		if got := isClosed(log.Grown("s", after)); got != want {
			t.Errorf("Grown(%d) of 202 events is closed: %v", after, got)
		}
	}
	waiting := make([]<-chan struct{}, 1000)
	for i := range waiting {
		waiting[i] = log.Grown("s", 202)
	}
	appendAll(t, log, "s", 202, deltas("s", 202, 1)...)
	if i := slices.IndexFunc(waiting, func(c <-chan struct{}) bool { return !isClosed(c) }); i >= 0 {
		t.Errorf("waiter %d was not woken", i)
	}
}
