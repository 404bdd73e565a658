package storetest

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// RunDeliver tests a log that is a [store.Deliverer].
func RunDeliver(t *testing.T, open func(t *testing.T) runnel.Log) {
	for name, test := range map[string]func(*testing.T, runnel.Log){
		"InTheGoroutineThatAppends": testDeliverInAppend,
		"NotWhatIsThere":            testDeliverNothingOld,
		"RefusedIsLeftToTheReader":  testDeliverRefused,
		"Stopped":                   testDeliverStopped,
		"Bounded":                   testDeliverBounded,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	t.Run("ManyReaders", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testDeliverToMany(t, open(t)) })
	})
	t.Run("PanicEndsOneReader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testDeliverPanic(t, open(t)) })
	})
}

func deliverer(t *testing.T, log runnel.Log) store.Deliverer {
	t.Helper()
	d, ok := log.(store.Deliverer)
	if !ok {
		t.Fatal("the log is no store.Deliverer")
	}
	return d
}

// A taken collects the positions of delivered events.
type taken struct {
	seqs []int64
	more bool // result of take
}

func (k *taken) take(evs []event.Event) bool {
	for _, ev := range evs {
		k.seqs = append(k.seqs, ev.Seq)
	}
	return k.more
}

func (k *taken) want(t *testing.T, seqs ...int64) {
	t.Helper()
	if len(k.seqs) != len(seqs) {
		t.Fatalf("delivered %v, want %v", k.seqs, seqs)
	}
	for i := range seqs {
		if k.seqs[i] != seqs[i] {
			t.Fatalf("delivered %v, want %v", k.seqs, seqs)
		}
	}
}

func isWoken(d *store.Delivery) bool {
	select {
	case <-d.Woken:
		return true
	default:
		return false
	}
}

func testDeliverInAppend(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 2)...)
	k := &taken{more: true}
	d := deliverer(t, log).Deliver("s", 2, k.take)
	if d == nil {
		t.Fatal("a reader at the end of the log was refused")
	}
	defer d.Stop()
	appendAll(t, log, "s", 2, deltas("s", 2, 1)...)
	k.want(t, 3) // without waiting
	appendAll(t, log, "s", 3, deltas("s", 3, 2)...)
	appendAll(t, log, "other", 0, deltas("other", 0, 1)...)
	k.want(t, 3, 4, 5)
	if isWoken(d) {
		t.Error("woken, although everything was delivered")
	}
}

func testDeliverNothingOld(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 2)...)
	k := &taken{more: true}
	if d := deliverer(t, log).Deliver("s", 1, k.take); d != nil {
		t.Error("a reader was accepted that lacks an event")
	}
	k.want(t)
}

func testDeliverRefused(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 1)...)
	k := new(taken)
	d := deliverer(t, log).Deliver("s", 1, k.take)
	defer d.Stop()
	appendAll(t, log, "s", 1, deltas("s", 1, 1)...)
	if k.want(t, 2); !isWoken(d) {
		t.Error("not woken after take returned false")
	}
	appendAll(t, log, "s", 2, deltas("s", 2, 1)...)
	k.want(t, 2)

	big := &taken{more: true}
	e := deliverer(t, log).Deliver("s", 3, big.take)
	defer e.Stop()
	appendAll(t, log, "s", 3, deltas("s", 3, 1000)...)
	if len(big.seqs) > 100 || !isWoken(e) {
		t.Errorf("%d events of a burst were delivered, and the reader's own goroutine was not woken", len(big.seqs))
	}
}

func testDeliverStopped(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 1)...)
	k := &taken{more: true}
	d := deliverer(t, log).Deliver("s", 1, k.take)
	d.Stop()
	appendAll(t, log, "s", 1, deltas("s", 1, 1)...)
	k.want(t)
	d.Stop()
}

func testDeliverBounded(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 1)...)
	accepted := 0
	for range 1000 {
		if d := deliverer(t, log).Deliver("s", 1, new(taken).take); d != nil {
			defer d.Stop()
			accepted++
		}
	}
	if accepted == 0 || accepted > 64 {
		t.Errorf("%d of 1,000 readers are served by the goroutine that appends", accepted)
	}
}

// testDeliverToMany runs readers that wait in [runnel.Cursor.Serve] while one
// writer appends. Each has every event once, in order, whether it was delivered
// or read.
func testDeliverToMany(t *testing.T, log runnel.Log) {
	const n, readers = 2000, 20
	appendAll(t, log, "s", 0, deltas("s", 0, 1)...)
	var all sync.WaitGroup
	delivered := 0
	var mu sync.Mutex
	for range readers {
		all.Go(func() {
			last := rand.Int64N(2)
			c := runnel.NewCursor(log, "s", last)
			next := func(evs []event.Event) {
				for _, ev := range evs {
					if last++; ev.Seq != last {
						t.Errorf("event %d follows %d", ev.Seq, last-1)
						last = ev.Seq
					}
				}
			}
			for last < n {
				evs, err := c.Read(t.Context())
				if next(evs); err != nil || last >= n {
					break
				}
				if len(evs) > 0 {
					continue
				}
				deadline := time.Now().Add(time.Duration(1 + rand.IntN(3000)))
				_, err = c.Serve(t.Context(), deadline, func(evs []event.Event) (bool, time.Time) {
					next(evs)
					mu.Lock()
					delivered += len(evs)
					mu.Unlock()
					return rand.IntN(4) > 0 && last < n, time.Time{}
				})
				if err != nil {
					t.Error(err)
					return
				}
				if c.Position() != last {
					t.Errorf("the cursor is at %d after event %d", c.Position(), last)
				}
			}
		})
	}
	for head := int64(1); head < n; {
		step := min(1+rand.Int64N(5), n-head)
		if rand.IntN(50) == 0 {
			step = min(400, n-head)
		}
		appendAll(t, log, "s", head, deltas("s", head, int(step))...)
		head += step
		if rand.IntN(3) == 0 {
			time.Sleep(time.Duration(rand.IntN(2000)))
		}
	}
	all.Wait()
	if delivered == 0 {
		t.Error("nothing was delivered")
	}
}

// A reader that panics fails alone: the append succeeds, and Serve returns an
// error.
func testDeliverPanic(t *testing.T, log runnel.Log) {
	appendAll(t, log, "s", 0, deltas("s", 0, 1)...)
	served := make(chan error, 1)
	go func() {
		_, err := runnel.NewCursor(log, "s", 1).Serve(t.Context(), time.Time{}, func(evs []event.Event) (bool, time.Time) {
			return evs[1].Seq > 0, time.Time{} // there is only one
		})
		served <- err
	}()
	synctest.Wait()
	appendAll(t, log, "s", 1, deltas("s", 1, 1)...)
	if err := <-served; runnel.CodeOf(err) != runnel.Internal {
		t.Errorf("Serve returns %v", err)
	}
}
