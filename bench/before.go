package main

import (
	"context"
	"fmt"
	"time"
)

// beforeRows measures this build and an older build of Runnel alternately, to
// show what a change costs or gains. Without -before it adds no rows.
func (b *bench) beforeRows(ctx context.Context) error {
	if b.before == "" {
		return nil
	}
	if err := copyProgram(b.before, b.w.path("runnel-before")); err != nil {
		return err
	}
	now, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	old, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	old.program = "runnel-before"
	for _, s := range []*runnel{now, old} {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer s.stop()
	}
	lanes := []lane{{now, overWS}, {old, overWS}, {now, overSSE}, {old, overSSE}}
	got, err := b.inTurn(ctx, lanes)
	if err != nil {
		return err
	}
	for i := 0; i < len(lanes); i += 2 {
		b.latencyBefore(lanes[i].transport, got[lanes[i]], got[lanes[i+1]])
	}
	return b.burstsBefore(ctx, lanes)
}

// latencyBefore adds the rows of one transport.
func (b *bench) latencyBefore(transport string, now, old []latencySample) {
	cpu := func(all []latencySample) time.Duration {
		return median(each(all, func(s latencySample) time.Duration { return s.cpu }))
	}
	ours := typical(now)
	w := row{
		ID: transport, What: fmt.Sprintf("this build and the one before, %d/s over %s: p50 / p95 / p99", paced, transport),
		Ours: ours.String(), Note: shortfall(now), Numbers: ours.numbers(),
	}
	w.compareWith("before", "an older build", ours, typical(old), 1, 1)
	b.report.add(w, row{
		ID: transport + "/cpu", What: fmt.Sprintf("this build and the one before, %d/s over %s: processor time for 1,000 events", paced, transport),
		Ours: millis(cpu(now)), Peer: fmt.Sprintf("before %s; ratio %.2f", millis(cpu(old)), ratio(cpu(now), cpu(old))),
		Numbers: keep(lower("", ms(cpu(now)), "ms"), ratioAtMost("", ms(cpu(now)), ms(cpu(old)), "before", 1)),
	})
}

// burstsBefore adds one row for each size of burst and each transport.
func (b *bench) burstsBefore(ctx context.Context, lanes []lane) error {
	for _, events := range b.size.bursts {
		got := make(map[lane][]burst)
		for range b.size.rounds {
			for _, l := range lanes {
				one, err := measureBurst(ctx, l, events, false)
				if err != nil {
					return fmt.Errorf("burst of %s: %w", l, err)
				}
				got[l] = append(got[l], one)
			}
		}
		for i := 0; i < len(lanes); i += 2 {
			now, old := rates(got[lanes[i]]), rates(got[lanes[i+1]])
			b.report.add(row{
				ID:      fmt.Sprintf("%d/%s", events, lanes[i].transport),
				What:    fmt.Sprintf("this build and the one before, burst of %s over %s: events/s", thousands(events), lanes[i].transport),
				Numbers: keep(higher("rate", now, "events/s"), ratioAtLeast("rate", now, old, "before", 1)),
				Ours:    thousands(now), Peer: fmt.Sprintf("before %s; ratio %.2f", thousands(old), ratio(now, old)), Note: faults(got[lanes[i]]),
			})
		}
	}
	return nil
}
