package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// RunSubscribeRace starts readers at every stage of a log's growth. A lost
// wake-up leaves a reader blocked, which synctest reports as a deadlock.
func RunSubscribeRace(t *testing.T, open func(t *testing.T) runnel.Log) {
	t.Run("Orders", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testWakeOrders(t, open(t)) })
	})
	t.Run("Random", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testWakeRandom(t, open(t)) })
	})
}

// testWakeOrders starts one more follower between any two appends. All earlier
// followers are blocked at that time.
func testWakeOrders(t *testing.T, log runnel.Log) {
	const n = 20
	var wg sync.WaitGroup
	var got [n + 1][]int64
	var mu sync.Mutex
	for head := range int64(n) {
		wg.Go(func() {
			for ev := range runnel.Follow(t.Context(), log, "s", head) {
				mu.Lock()
				got[head] = append(got[head], ev.Seq)
				mu.Unlock()
				if ev.Seq == n {
					return
				}
			}
		})
		synctest.Wait() // all followers are blocked
		appendAll(t, log, "s", head, deltas("s", head, 1)...)
		synctest.Wait()
		mu.Lock()
		for after := range head + 1 {
			if len(got[after]) != int(head+1-after) {
				t.Errorf("the follower from %d has %v after event %d", after, got[after], head+1)
			}
		}
		mu.Unlock()
	}
	wg.Wait()
}

func testWakeRandom(t *testing.T, log runnel.Log) {
	sessions := 1000
	if testing.Short() {
		sessions = 200
	}
	var wg sync.WaitGroup
	for i := range sessions {
		session := fmt.Sprint("s", i)
		n := 1 + rand.Int64N(6)
		for range 2 {
			after := rand.Int64N(n)
			wg.Go(func() {
				want := after
				for ev, err := range runnel.Follow(t.Context(), log, session, after) {
					if want++; err != nil || ev.Seq != want || ev.Session != session {
						t.Errorf("%s after %d: got %d, %v, want %d", session, after, ev.Seq, err, want)
						return
					}
					if ev.Seq == n {
						return
					}
				}
			})
		}
		wg.Go(func() {
			for head := int64(0); head < n; {
				step := 1 + rand.Int64N(n-head)
				if err := log.Append(t.Context(), session, head, deltas(session, head, int(step))...); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				head += step
			}
		})
		if i%50 == 49 {
			wg.Wait()
		}
	}
	wg.Wait()
}

// testManyReaders runs readers that disconnect and reconnect while one writer
// appends. All readers see the same events.
func testManyReaders(t *testing.T, log runnel.Log) {
	const n, readers = 1500, 16
	want := make([]event.Event, 0, n)
	for i := range n {
		body := event.Body(event.ItemDelta{ItemID: "i", DeltaContent: fmt.Sprint(i)})
		if i%500 == 499 {
			body = event.ItemDone{ItemID: "i", FinalItem: event.Message{Content: fmt.Sprint(i), Origin: event.OriginAgent}}
		}
		want = append(want, numbered("s", "t", int64(i), body)...)
	}
	var wg sync.WaitGroup
	got := make([][]event.Event, readers)
	for r := range readers {
		wg.Go(func() {
			var after int64
			for after < n { // reconnects every few events
				ctx, cancel := context.WithCancel(t.Context())
				limit := after + 1 + rand.Int64N(300)
				for ev, err := range runnel.Follow(ctx, log, "s", after) {
					if err != nil {
						t.Errorf("Follow: %v", err)
						cancel()
						return
					}
					got[r] = append(got[r], ev)
					if after = ev.Seq; after == limit || after == n {
						break
					}
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		for head := 0; head < n; {
			step := min(1+rand.IntN(20), n-head)
			if err := log.Append(t.Context(), "s", int64(head), want[head:head+step]...); err != nil {
				t.Errorf("Append: %v", err)
				return
			}
			head += step
		}
	})
	wg.Wait()
	for r := range readers {
		equal(t, fmt.Sprint("reader ", r), got[r], want)
	}
}

func testConcurrentSessions(t *testing.T, log runnel.Log) {
	const sessions, n = 20, 60
	var wg sync.WaitGroup
	for i := range sessions {
		session := fmt.Sprint("s", i)
		wg.Go(func() {
			all := deltas(session, 0, n)
			for head := range all {
				if err := log.Append(t.Context(), session, int64(head), all[head]); err != nil {
					t.Errorf("%s: Append: %v", session, err)
					return
				}
				st, err := log.State(t.Context(), session)
				if err != nil || st.Head != int64(head)+1 {
					t.Errorf("%s: State after event %d: %d, %v", session, head+1, st.Head, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		session := fmt.Sprint("s", i)
		equal(t, session, collect(t, log, session, 0), deltas(session, 0, n))
	}
}

// testCompetingWriters checks that exactly one of several writers at the same
// position succeeds.
func testCompetingWriters(t *testing.T, log runnel.Log) {
	const writers, rounds = 8, 50
	var won [writers]int
	for head := range int64(rounds) {
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				body := event.ItemDelta{ItemID: "i", DeltaContent: fmt.Sprint(w)}
				switch err := log.Append(t.Context(), "s", head, numbered("s", "t", head, body)...); {
				case err == nil:
					won[w]++
				case !errors.Is(err, runnel.ErrConflict):
					t.Errorf("Append: %v", err)
				}
			})
		}
		wg.Wait()
	}
	var wrote [writers]int
	evs := collect(t, log, "s", 0)
	for _, ev := range evs {
		for w := range writers {
			if ev.Body.(event.ItemDelta).DeltaContent == fmt.Sprint(w) {
				wrote[w]++
			}
		}
	}
	equal(t, "number of events", len(evs), rounds)
	equal(t, "events of each writer", wrote, won)
}
