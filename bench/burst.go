package main

import (
	"context"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// slowly is how long the slow reader pauses for each event.
const slowly = 2 * time.Millisecond

// A burst holds what three readers received of one answer that the agent wrote
// without pauses.
type burst struct {
	fast, slow, late *tally // slow is nil if there was no slow reader
	cpu              time.Duration
}

// measureBurst measures an answer that the agent writes as fast as it can.
func measureBurst(ctx context.Context, l lane, events int, withSlow bool) (out burst, err error) {
	c, err := l.s.open(ctx)
	if err != nil {
		return out, err
	}
	fast, err := read(ctx, c, l.transport, events, 0, stillWaiting)
	if err != nil {
		return out, err
	}
	var slow *reader
	if withSlow {
		if slow, err = read(ctx, c, l.transport, events, slowly, stillWaiting); err != nil {
			return out, err
		}
	}
	pids, err := l.s.servers()
	if err != nil {
		return out, err
	}
	before, err := cpuTime(pids)
	if err != nil {
		return out, err
	}
	if err := c.prompt(ctx, load.Plan{Events: events}.Prompt()); err != nil {
		return out, err
	}
	fast.finish()
	after, err := cpuTime(pids)
	if err != nil {
		return out, err
	}
	late, err := read(ctx, c, l.transport, events, 0, stillWaiting/5)
	if err != nil {
		return out, err
	}
	late.finish()
	if slow != nil {
		slow.finish()
		out.slow = slow.tally
	}
	out.fast, out.late, out.cpu = fast.tally, late.tally, (after-before)*1000/time.Duration(events)
	return out, c.end(ctx)
}

// burstRows measures the lanes alternately. A slow reader takes longer than
// everything else, so only the last round has one, and on a WebSocket only the
// smallest burst.
func (b *bench) burstRows(ctx context.Context, lanes []lane) error {
	for i, events := range b.size.bursts {
		got := make(map[lane][]burst)
		for round := range b.size.rounds {
			for _, l := range lanes {
				b.w.logf("burst of %s, round %d of %d: %s", thousands(events), round+1, b.size.rounds, l)
				one, err := measureBurst(ctx, l, events, round == b.size.rounds-1 && (i == 0 || l.transport == overSSE))
				if err != nil {
					return fmt.Errorf("burst of %s: %w", l, err)
				}
				got[l] = append(got[l], one)
			}
		}
		b.burstRow(events, lanes, got)
	}
	return nil
}

func (b *bench) burstRow(events int, lanes []lane, got map[lane][]burst) {
	for _, l := range lanes {
		if l.s != b.ours {
			continue
		}
		id := fmt.Sprintf("%d/%s", events, l.transport)
		rate := row{
			ID: id, What: fmt.Sprintf("burst of %s over %s: events/s, fast reader", thousands(events), l.transport), Ours: thousands(rates(got[l])),
			Numbers: []number{atLeast("rate", rates(got[l]), "events/s", 20_000)},
		}
		rate.Note = fmt.Sprintf("median of %d; processor time of the server %s per 1,000 events", len(got[l]), millis(median(each(got[l], func(o burst) time.Duration { return o.cpu }))))
		readers := fmt.Sprintf("slow (%v an event) and late", slowly)
		if got[l][len(got[l])-1].slow == nil {
			readers = "and late"
		}
		readable := row{
			ID: id + "/kept", What: fmt.Sprintf("burst of %s over %s: readers that are fast, %s", thousands(events), l.transport, readers), Ours: faults(got[l]),
			Numbers: kept(worst(got[l])),
		}
		for _, other := range lanes {
			if other.s != b.ours {
				rate.Peer = fmt.Sprintf("%s %s; ratio %.2f", other.s.name(), thousands(rates(got[other])), ratio(rates(got[l]), rates(got[other])))
				rate.Numbers = append(rate.Numbers, keep(ratioAtLeast("rate", rates(got[l]), rates(got[other]), other.s.name(), 2))...)
				readable.Peer = other.s.name() + " " + faults(got[other])
			}
		}
		b.report.add(rate, readable)
	}
}

func rates(all []burst) float64 {
	return median(each(all, func(o burst) float64 { return o.fast.rate() }))
}

// kept returns the numbers of deltas that readers lost or received twice.
func kept(lost, duplicated int) []number {
	return []number{atMost("lost", float64(lost), "", 0), atMost("duplicated", float64(duplicated), "", 0)}
}

// worst returns the most deltas that a reader lost or received twice, over all
// rounds.
func worst(all []burst) (lost, duplicated int) {
	for _, o := range all {
		for _, t := range []*tally{o.fast, o.slow, o.late} {
			if t != nil {
				lost, duplicated = max(lost, t.lost()), max(duplicated, t.duplicated())
			}
		}
	}
	return lost, duplicated
}

// faults returns the worst result of each reader over all rounds.
func faults(all []burst) string {
	worst := func(of func(burst) *tally) string {
		var bad *tally
		for _, o := range all {
			t := of(o)
			if t != nil && (bad == nil || t.lost()+t.duplicated() > bad.lost()+bad.duplicated()) {
				bad = t
			}
		}
		if bad == nil {
			return unmeasured
		}
		return bad.faults()
	}
	f, s, l := worst(func(o burst) *tally { return o.fast }), worst(func(o burst) *tally { return o.slow }), worst(func(o burst) *tally { return o.late })
	if f == s && s == l || f == l && s == unmeasured {
		return f
	}
	return fmt.Sprintf("fast: %s; slow: %s; late: %s", f, s, l)
}
