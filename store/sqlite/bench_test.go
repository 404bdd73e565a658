package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), Config{Dir: ownDir(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// delta returns an event with one typical token of a model.
func delta(session string, seq int64) event.Event {
	return event.Event{Session: session, Seq: seq, At: time.Now(), Turn: "01890c7c-0000-7000-8000-000000000000",
		Body: event.ItemDelta{ItemID: "01890c7c-0000-7000-8000-000000000000:1:0", DeltaContent: " and then some"}}
}

func done(session string, seq int64) event.Event {
	ev := delta(session, seq)
	ev.Body = event.ItemDone{ItemID: "01890c7c-0000-7000-8000-000000000000:1:0",
		FinalItem: event.Message{Content: "and then some", Origin: event.OriginAgent}}
	return ev
}

func BenchmarkAppend(b *testing.B) {
	for name, make := range map[string]func(string, int64) event.Event{"Shown": delta, "Decided": done} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b)
			took := newTimes(b.N)
			var head int64
			for b.Loop() {
				start := time.Now()
				if err := s.Append(b.Context(), "s", head, make("s", head+1)); err != nil {
					b.Fatal(err)
				}
				head++
				took.since(start)
			}
			took.report(b)
		})
	}
}

// BenchmarkAppendBatch appends many events with one call.
func BenchmarkAppendBatch(b *testing.B) {
	s := benchStore(b)
	const size = 64
	evs := make([]event.Event, size)
	var head int64
	for b.Loop() {
		for i := range evs {
			evs[i] = delta("s", head+int64(i)+1)
		}
		if err := s.Append(b.Context(), "s", head, evs...); err != nil {
			b.Fatal(err)
		}
		head += size
	}
	b.ReportMetric(float64(head)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppendByManyWriters(b *testing.B) {
	for name, make := range map[string]func(string, int64) event.Event{"Shown": delta, "Decided": done} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b)
			const writers = 100
			var wg sync.WaitGroup
			took := newTimes(b.N + writers)
			b.ResetTimer()
			for w := range writers {
				session := fmt.Sprint("s", w)
				n := int64(b.N/writers + 1)
				wg.Go(func() {
					for seq := range n {
						start := time.Now()
						if err := s.Append(context.Background(), session, seq, make(session, seq+1)); err != nil {
							b.Error(err)
							return
						}
						took.since(start)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			took.report(b)
		})
	}
}

// BenchmarkFollow measures the time from the call of Append until a follower
// receives the event.
func BenchmarkFollow(b *testing.B) {
	s := benchStore(b)
	got := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		for _, err := range runnel.Follow(ctx, s, "s", 0) {
			if err != nil {
				return
			}
			got <- struct{}{}
		}
	}()
	took := newTimes(b.N)
	var head int64
	for b.Loop() {
		start := time.Now()
		if err := s.Append(b.Context(), "s", head, delta("s", head+1)); err != nil {
			b.Fatal(err)
		}
		<-got
		head++
		took.since(start)
	}
	took.report(b)
}

func BenchmarkRead(b *testing.B) {
	const n = 10000
	dir := ownDir(b)
	s, err := Open(b.Context(), Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = delta("s", int64(i)+1)
	}
	if err := s.Append(b.Context(), "s", 0, evs...); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if s, err = Open(b.Context(), Config{Dir: dir}); err != nil { // so that no events are in memory
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		for _, err := range s.Read(b.Context(), "s", 0) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "events/s")
	runtime.KeepAlive(s)
}

// times collects durations from many goroutines.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func newTimes(n int) *times { return &times{all: make([]time.Duration, 0, n)} }

func (t *times) since(start time.Time) {
	d := time.Since(start)
	t.mu.Lock()
	t.all = append(t.all, d)
	t.mu.Unlock()
}

func (t *times) report(b *testing.B) {
	slices.Sort(t.all)
	at := func(q float64) float64 { return float64(t.all[int(q*float64(len(t.all)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
}
