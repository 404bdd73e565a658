package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// RunCompaction tests which events a log removes after a turn has ended. Each
// call of open returns an empty log and a function that removes all removable
// events.
func RunCompaction(t *testing.T, open func(t *testing.T) (log runnel.Log, compact func())) {
	t.Run("Script", func(t *testing.T) {
		log, compact := open(t)
		appendAll(t, log, "s", 0, compactScript("s")...)
		compact()
		var want []event.Event
		for i, ev := range compactScript("s") {
			if compactSteps[i].kept {
				want = append(want, ev)
			}
		}
		equal(t, "events", collect(t, log, "s", 0), want)
	})
	t.Run("Random", func(t *testing.T) {
		for range 2 {
			seed := rand.Uint64()
			testCompaction(t, both(open(t)), seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
	t.Run("Meanwhile", func(t *testing.T) { testCompactedMeanwhile(t, both(open(t))) })
}

type compactable struct {
	runnel.Log
	compact func()
}

func both(log runnel.Log, compact func()) compactable { return compactable{log, compact} }

// compactSteps is a log from which some deltas may be removed. kept is false
// for those.
var compactSteps = []struct {
	turn string
	body event.Body
	kept bool
}{
	{"a", event.ItemStart{ItemID: "a:1", ItemType: event.TypeMessage}, true},
	{"a", event.ItemDelta{ItemID: "a:1", DeltaContent: "x"}, false},
	{"a", event.ItemStart{ItemID: "a:2", ItemType: event.TypeMessage}, true},
	{"a", event.ItemDelta{ItemID: "a:2", DeltaContent: "failed"}, true},
	{"b", event.ItemDelta{ItemID: "b:1", DeltaContent: "of another turn"}, true},
	{"a", event.ItemDelta{ItemID: "a:1", DeltaContent: "y"}, false},
	{"a", event.ItemDone{ItemID: "a:1", FinalItem: event.Message{Content: "xy", Origin: event.OriginAgent}}, true},
	{"a", event.ItemDelta{ItemID: "a:1", DeltaContent: "after the end"}, true},
	{"a", event.ItemError{ItemID: "a:2", Error: event.Fault{Code: "c"}}, true},
	{"a", event.ItemDelta{ItemID: "a:3", DeltaContent: "cancelled"}, true},
	{"a", event.ItemCancelled{ItemID: "a:3"}, true},
	{"a", event.ItemDelta{ItemID: "a:4", DeltaContent: "never ended"}, true},
	{"a", event.ItemDelta{ItemID: "a:5", DeltaContent: "done and failed"}, true},
	{"a", event.ItemDone{ItemID: "a:5", FinalItem: event.Reasoning{Content: "z"}}, true},
	{"a", event.ItemError{ItemID: "a:5", Error: event.Fault{Code: "c"}}, true},
	{"", event.Notice{Level: event.LevelInfo, Code: "c"}, true},
	{"a", event.ResponseDone{Status: event.StatusCompleted}, true},
	{"a", event.ItemDelta{ItemID: "a:1", DeltaContent: "late"}, true},
	{"b", event.ItemDone{ItemID: "b:1", FinalItem: event.Message{Content: "of another turn", Origin: event.OriginAgent}}, true}, // turn b continues
}

func compactScript(session string) (evs []event.Event) {
	for i, step := range compactSteps {
		evs = append(evs, numbered(session, step.turn, int64(i), step.body)...)
	}
	return evs
}

// testCompaction compacts a random log. It compares everything that the log
// then returns with the events that must remain.
func testCompaction(t *testing.T, log compactable, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	all := randomLog(rnd, "s", 150)
	var want []event.Event
	head := 0
	for head < len(all) {
		n := min(1+rnd.IntN(40), len(all)-head)
		appendAll(t, log, "s", int64(head), all[head:head+n]...)
		if head += n; rnd.IntN(4) > 0 {
			continue
		}
		before := state(t, log, "s")
		for range 1 + rnd.IntN(2) { // compacting twice has no further effect
			log.compact()
		}
		equal(t, "state", state(t, log, "s"), before)
		want = left(all[:head])
		equal(t, "events", collect(t, log, "s", 0), want)
		if isClosed(log.Grown("s", int64(head))) {
			t.Error("removing events woke a waiting reader")
		}
	}
	log.compact()
	want = left(all)
	if len(want) == len(all) {
		return
	}
	for after := int64(-1); after <= int64(len(all))+1; after++ {
		var exp = []event.Event{}
		for _, ev := range want {
			if ev.Seq > after {
				exp = append(exp, ev)
			}
		}
		equal(t, fmt.Sprint("events after ", after), collect(t, log, "s", after), exp)
	}
}

// randomLog returns n events of overlapping turns.
func randomLog(rnd *rand.Rand, session string, n int) (evs []event.Event) {
	turns := []string{"t0", "t1"}
	for i := range int64(n) {
		k := rnd.IntN(len(turns))
		turn := turns[k]
		item := fmt.Sprint(turn, ":", rnd.IntN(4))
		var body event.Body
		switch p := rnd.IntN(100); {
		case p < 80:
			body = event.ItemDelta{ItemID: item, DeltaContent: fmt.Sprint(i)}
		case p < 85:
			body = event.ItemStart{ItemID: item, ItemType: event.TypeMessage}
		case p < 92:
			body = event.ItemDone{ItemID: item, FinalItem: event.Message{Content: fmt.Sprint(i), Origin: event.OriginAgent}}
		case p < 93:
			body = event.ItemError{ItemID: item, Error: event.Fault{Code: "c"}}
		case p < 94:
			body = event.ItemCancelled{ItemID: item}
		case p < 96:
			turn, body = "", event.Notice{Level: event.LevelInfo, Code: "c"}
		default:
			body = event.ResponseDone{Status: event.StatusCompleted}
			turns[k] = fmt.Sprint("t", i+2)
		}
		evs = append(evs, numbered(session, turn, i, body)...)
	}
	return evs
}

// left returns the events that compaction keeps. It decides for each event
// alone.
func left(all []event.Event) []event.Event {
	first := func(turn string, is func(event.Body) bool) int64 {
		for _, ev := range all {
			if ev.Turn == turn && is(ev.Body) {
				return ev.Seq
			}
		}
		return 0
	}
	kept := []event.Event{}
	for _, ev := range all {
		if d, ok := ev.Body.(event.ItemDelta); ok {
			end := first(ev.Turn, event.Ends)
			done := first(ev.Turn, func(b event.Body) bool {
				x, ok := b.(event.ItemDone)
				return ok && x.ItemID == d.ItemID
			})
			broken := first(ev.Turn, func(b event.Body) bool {
				x, failed := b.(event.ItemError)
				y, cancelled := b.(event.ItemCancelled)
				return failed && x.ItemID == d.ItemID || cancelled && y.ItemID == d.ItemID
			})
			if ev.Seq < done && done < end && (broken == 0 || broken > end) {
				continue
			}
		}
		kept = append(kept, ev)
	}
	return kept
}

// testCompactedMeanwhile compacts a log while readers are in the middle of it.
// Each reader gets every remaining event exactly once.
func testCompactedMeanwhile(t *testing.T, log compactable) {
	const n = 3000
	evs := numbered("s", "t", 0, event.ItemStart{ItemID: "i", ItemType: event.TypeMessage})
	for i := range int64(n) {
		evs = append(evs, numbered("s", "t", i+1, event.ItemDelta{ItemID: "i", DeltaContent: "x"})...)
	}
	evs = append(evs, numbered("s", "t", n+1,
		event.ItemDone{ItemID: "i", FinalItem: event.Message{Content: "x", Origin: event.OriginAgent}},
		event.ResponseDone{Status: event.StatusCompleted})...)
	appendAll(t, log, "s", 0, evs...)
	for _, pause := range []int64{1, 2, 700, n + 1} {
		var last int64
		var finals int
		for ev, err := range log.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatalf("paused at %d: %v", pause, err)
			}
			if ev.Seq <= last {
				t.Fatalf("paused at %d: %d follows %d", pause, ev.Seq, last)
			}
			if last = ev.Seq; last >= n+2 {
				finals++
			}
			if last >= pause {
				log.compact()
				pause = n + 10
			}
		}
		if last != n+3 || finals != 2 {
			t.Errorf("a reader during compaction got %d of 2 final events and ended at %d", finals, last)
		}
	}
}
