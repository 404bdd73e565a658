package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
)

// TestAHundredWritersAppend runs a hundred writers whose events are all flushed
// to the disk. It logs the rate, which depends on the machine, and fails only
// if events are missing.
func TestAHundredWritersAppend(t *testing.T) {
	const writers, wantRate, wantP99 = 100, 20000, 20 * time.Millisecond
	each := 40
	if long {
		each = 2000
	}
	s := openTest(t, ownDir(t), tailLimits{events: 1024, bytes: 1 << 20, allBytes: 8 << 20})
	var wg sync.WaitGroup
	took := newTimes(writers * each)
	start := time.Now()
	for w := range writers {
		session := fmt.Sprint("s", w)
		wg.Go(func() {
			for seq := range int64(each) {
				at := time.Now()
				if err := s.Append(context.Background(), session, seq, done(session, seq+1)); err != nil {
					t.Error(err)
					return
				}
				took.since(at)
			}
		})
	}
	wg.Wait()
	rate := float64(writers*each) / time.Since(start).Seconds()
	slices.Sort(took.all)
	p99 := took.all[len(took.all)*99/100]
	t.Logf("%.0f events/s, p50 %v, p99 %v (goal: %d, and %v)", rate, took.all[len(took.all)/2], p99, wantRate, wantP99)
	for w := range writers {
		if n := count(t, s, fmt.Sprint("s", w)); n != each {
			t.Errorf("writer %d has %d events, want %d", w, n, each)
		}
	}
}

// TestOrderAndTimesSurviveClockJumps appends events whose times jump forwards
// and backwards. The events keep their order and their times in memory, on the
// disk and after compaction.
func TestOrderAndTimesSurviveClockJumps(t *testing.T) {
	dir := ownDir(t)
	s := openTest(t, dir, small)
	now := time.Now().UTC()
	times := []time.Time{
		now, now.AddDate(1, 0, 0), now.AddDate(-1, 0, 0), now, {}, now.Add(-time.Hour), // an hour back, as at the end of daylight saving time
		now.In(time.FixedZone("", -7*3600)), time.Unix(0, 0), now, now, now.AddDate(1, 0, 0),
	}
	var want []event.Event
	for i := range int64(10 * len(times)) {
		ev := delta("s", i+1)
		switch i % 40 {
		case 10:
			ev = done("s", i+1)
		case 39:
			ev.Body = event.ResponseDone{Status: event.StatusCompleted}
		}
		ev.Turn, ev.At = fmt.Sprint("t", i/40), times[int(i)%len(times)]
		if err := s.Append(t.Context(), "s", i, ev); err != nil {
			t.Fatal(err)
		}
		if ev.At = ev.At.UTC(); ev.At.IsZero() {
			ev.At = time.Time{}
		}
		if turnOver := i < 80; !turnOver || i%40 > 9 {
			want = append(want, ev)
		}
	}
	tidy(t, s)
	for range 2 {
		var got []event.Event
		for ev, err := range s.Read(t.Context(), "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("events (-want +got):\n%s", d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, dir, small)
	}
	if open, err := s.State(t.Context(), "s"); err != nil || len(open.Open) != 1 || open.Head != int64(10*len(times)) {
		t.Errorf("state %+v, %v", open, err)
	}
}
