package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// A message is one part of an agent's answer, as a reader received it.
type message struct {
	at    time.Time // when the reader received it
	seq   int64     // the server's sequence number; 0 if it has none
	delta string    // new text
	final string    // text of a completed item
	end   string    // how the turn ended; "" if it continues
}

// A tally counts what one reader received of a plan.
type tally struct {
	seen       []int // how often each delta arrived, by its number
	whole      []bool
	latencies  []time.Duration
	disordered int
	newest     int
	first      time.Time // when the first delta was written
	last       time.Time // when the last one was read
	end        string
	cut        string // why the connection ended before the turn did
}

func newTally(events int) *tally {
	return &tally{seen: make([]int, events), whole: make([]bool, events), newest: -1}
}

func (t *tally) add(m message) {
	for _, s := range load.Stamps(m.delta) {
		if s.N < 0 || s.N >= len(t.seen) {
			continue
		}
		if t.seen[s.N]++; t.seen[s.N] == 1 {
			t.latencies = append(t.latencies, m.at.Sub(s.At))
		}
		if s.N <= t.newest {
			t.disordered++
		}
		t.newest = max(t.newest, s.N)
		if t.first.IsZero() {
			t.first = s.At
		}
		t.last = m.at
	}
	for _, s := range load.Stamps(m.final) {
		if s.N >= 0 && s.N < len(t.whole) {
			t.whole[s.N] = true
		}
	}
	if m.end != "" {
		t.end = m.end
	}
}

// lost returns how many deltas arrived neither alone nor in a completed item.
func (t *tally) lost() (n int) {
	for i, times := range t.seen {
		if times == 0 && !t.whole[i] {
			n++
		}
	}
	return n
}

func (t *tally) duplicated() (n int) {
	for _, times := range t.seen {
		n += max(times-1, 0)
	}
	return n
}

func (t *tally) got() int { return len(t.latencies) }

// rate returns deltas per second, from writing the first to reading the last.
func (t *tally) rate() float64 {
	took := t.last.Sub(t.first).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(t.got()) / took
}

// faults describes what the reader lost or received twice or out of order.
func (t *tally) faults() string {
	s := fmt.Sprintf("%d lost, %d duplicated", t.lost(), t.duplicated())
	if t.disordered > t.duplicated() {
		s += fmt.Sprintf(", %d out of order", t.disordered)
	}
	if t.cut != "" && t.lost() > 0 {
		s += " (" + t.cut + ")"
	}
	return s
}

// percentile returns the smallest value that p percent of the values do not
// exceed, or 0 if there are no values.
func percentile[T cmp.Ordered](values []T, p float64) (v T) {
	if len(values) == 0 {
		return v
	}
	sorted := slices.Sorted(slices.Values(values))
	i := int(float64(len(sorted))*p/100+0.5) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 50) }

// A spread holds percentiles of times.
type spread struct{ p50, p95, p99 time.Duration }

func spreadOf(all []time.Duration) spread {
	return spread{percentile(all, 50), percentile(all, 95), percentile(all, 99)}
}

// medians returns the median of each percentile.
func medians(all []spread) spread {
	mid := func(of func(spread) time.Duration) time.Duration { return median(each(all, of)) }
	return spread{
		mid(func(s spread) time.Duration { return s.p50 }), mid(func(s spread) time.Duration { return s.p95 }), mid(func(s spread) time.Duration { return s.p99 }),
	}
}

func (s spread) String() string { return millis(s.p50) + " / " + millis(s.p95) + " / " + millis(s.p99) }

// numbers returns the percentiles without targets.
func (s spread) numbers() []number {
	return []number{lower("p50", ms(s.p50), "ms"), lower("p95", ms(s.p95), "ms"), lower("p99", ms(s.p99), "ms")}
}

// within returns the percentiles, with the limit as target of those that are
// named.
func (s spread) within(limit time.Duration, names ...string) []number {
	all := s.numbers()
	for i, n := range all {
		if slices.Contains(names, n.Name) {
			all[i] = atMost(n.Name, n.Value, n.Unit, ms(limit))
		}
	}
	return all
}

// compareWith adds the times of a peer to a row, and targets for the ratios of p50
// and p99. how says how the peer differs.
func (w *row) compareWith(peer, how string, ours, other spread, p50, p99 float64) {
	w.Peer = fmt.Sprintf("%s (%s) %s; ratio of p50 %.2f, of p95 %.2f, of p99 %.2f", peer, how, other,
		ratio(ours.p50, other.p50), ratio(ours.p95, other.p95), ratio(ours.p99, other.p99))
	w.Numbers = append(w.Numbers, keep(ratioAtMost("p50", ms(ours.p50), ms(other.p50), peer, p50), ratioAtMost("p99", ms(ours.p99), ms(other.p99), peer, p99))...)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func millis(d time.Duration) string {
	ms := ms(d)
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.3f", ms)
}

// thousands formats n with commas, as in 20,000.
func thousands[T ~int | ~float64](n T) string {
	s := fmt.Sprintf("%.0f", float64(n))
	var groups []string
	for len(s) > 3 {
		groups = append([]string{s[len(s)-3:]}, groups...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, groups...), ",")
}
