package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// crowdSize sessions run at the same time, each at a moderate rate.
const (
	crowdSize = 20
	crowdRate = 50 // events per second of each session
)

// A crowd is a way in which clients follow many sessions at the same time.
type crowd struct {
	what string
	s    subject
	read func(ctx context.Context, of []conversation, events int) ([]*reader, error)
}

func readEach(transport string) func(context.Context, []conversation, int) ([]*reader, error) {
	return func(ctx context.Context, of []conversation, events int) (out []*reader, err error) {
		for _, c := range of {
			r, err := read(ctx, c, transport, events, 0, stillWaiting)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, nil
	}
}

// readTogether reads all sessions of a Runnel server on one connection. All
// readers end when the connection ends.
func readTogether(ctx context.Context, of []conversation, events int) (out []*reader, _ error) {
	s, running := of[0].(*session).s, len(of)
	ids := each(of, func(c conversation) string { return c.(*session).id })
	for range of {
		out = append(out, &reader{newTally(events), make(chan error, 1)})
	}
	open, done := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(stillWaiting, cancel)
	go func() {
		defer cancel()
		defer silence.Stop()
		err := s.followAll(ctx, ids, func() { close(open) }, func(id string, m message) bool {
			silence.Reset(stillWaiting)
			if i := slices.Index(ids, id); i >= 0 {
				out[i].tally.add(m)
			}
			if m.end != "" {
				running--
			}
			return running == 0
		})
		for _, r := range out {
			r.done <- err
		}
		done <- err
	}()
	select {
	case <-open:
		return out, nil
	case err := <-done:
		return nil, fmt.Errorf("follow %d sessions on one connection: %w", len(of), err)
	}
}

// A crowdResult holds the combined results of all clients of a crowd.
type crowdResult struct {
	spread
	cpu              time.Duration // processor time of server and supervisors, per 1,000 events
	lost, duplicated int
	cut              string // why a connection ended early
}

func measureCrowd(ctx context.Context, c crowd, events int) (out crowdResult, err error) {
	if s, ok := c.s.(*runnel); ok {
		if err := s.credential(ctx); err != nil { // a credential may create only a limited number of sessions per minute
			return out, err
		}
	}
	var of []conversation
	for range crowdSize {
		opened, err := c.s.open(ctx)
		if err != nil {
			return out, err
		}
		of = append(of, opened)
	}
	readers, err := c.read(ctx, of, events)
	if err != nil {
		return out, err
	}
	pids, err := c.s.servers()
	if err != nil {
		return out, err
	}
	before, err := cpuTime(pids)
	if err != nil {
		return out, err
	}
	for _, c := range of {
		if err := c.prompt(ctx, load.Plan{Events: events, Rate: crowdRate}.Prompt()); err != nil {
			return out, err
		}
	}
	out.add(readers)
	after, err := cpuTime(pids)
	if err != nil {
		return out, err
	}
	out.cpu = (after - before) * 1000 / time.Duration(events*crowdSize)
	for _, c := range of {
		if err := c.end(ctx); err != nil {
			return out, err
		}
	}
	return out, nil
}

// add waits until the readers have finished and adds their results.
func (t *crowdResult) add(readers []*reader) {
	var all []time.Duration
	for _, r := range readers {
		r.finish()
		all = append(all, r.tally.latencies...)
		t.lost += r.tally.lost()
		t.duplicated += r.tally.duplicated()
		if r.tally.cut != "" {
			t.cut = r.tally.cut
		}
	}
	t.spread = spreadOf(all)
}

func (t crowdResult) faults() string {
	s := fmt.Sprintf("%d lost, %d duplicated", t.lost, t.duplicated)
	if t.cut != "" {
		s += " (" + t.cut + ")"
	}
	return s
}

// manyRows measures many agents that write at the same time through one server.
func (b *bench) manyRows(ctx context.Context) error {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	crowds := []crowd{
		{"WebSocket, one connection", s, readTogether},
		{"WebSocket, a connection each", s, readEach(overWS)},
		{"SSE, a connection each", s, readEach(overSSE)},
		{"pipes", &bare{b.w}, readEach(overPipe)},
	}
	got := make([][]crowdResult, len(crowds))
	for round := range b.size.rounds {
		for i, c := range crowds {
			b.w.logf("%d sessions, round %d of %d: %s", crowdSize, round+1, b.size.rounds, c.what)
			t, err := measureCrowd(ctx, c, b.size.crowd)
			if err != nil {
				return fmt.Errorf("%d sessions by %s: %w", crowdSize, c.what, err)
			}
			got[i] = append(got[i], t)
		}
	}
	mid := func(all []crowdResult, of func(crowdResult) time.Duration) string {
		return millis(median(each(all, of)))
	}
	latency := func(all []crowdResult) spread {
		return medians(each(all, func(t crowdResult) spread { return t.spread }))
	}
	for i, all := range got {
		if crowds[i].s != subject(s) {
			continue
		}
		what := fmt.Sprintf("%d sessions with %d events/s each, %s", crowdSize, crowdRate, crowds[i].what)
		worst := slices.MaxFunc(all, func(a, b crowdResult) int { return a.lost + a.duplicated - b.lost - b.duplicated })
		b.report.add(row{
			ID: crowds[i].what, What: what + "; p50 / p95 / p99", Ours: latency(all).String(), Numbers: latency(all).within(5*time.Millisecond, "p99"),
			Note: fmt.Sprintf("median of %d; processor time of server and supervisors %s per 1,000 events; the agents directly through pipes %s",
				len(all), mid(all, func(t crowdResult) time.Duration { return t.cpu }), latency(got[len(got)-1])),
		}, row{
			ID: crowds[i].what + ", kept", What: what, Ours: worst.faults(), Numbers: kept(worst.lost, worst.duplicated),
			Note: fmt.Sprintf("the worst of %d, %s events each", len(all), thousands(b.size.crowd*crowdSize)),
		})
	}
	return nil
}
