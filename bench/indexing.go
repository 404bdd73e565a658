package main

import (
	"context"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// wholeMessages is how many finished messages precede the deltas of a turn
// during which the search index grows.
const wholeMessages = 200

// indexingRow measures what the search index costs while agents work: the same
// turns on a server with a search index and on one without, in turn.
func (b *bench) indexingRow(ctx context.Context) error {
	on, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	off, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	off.flags = []string{"--search=false"}
	for _, s := range []*runnel{on, off} {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer s.stop()
	}
	var shares []float64
	var with, without, turn time.Duration
	for round := range b.size.rounds {
		var cpu [2]time.Duration
		var took time.Duration
		for i := range 2 {
			which := (i + round) % 2
			b.w.logf("turns with and without a search index, round %d of %d", round+1, b.size.rounds)
			used, wall, err := []*runnel{on, off}[which].turnCPU(ctx, b.size.indexed, which == 0)
			if err != nil {
				return err
			}
			cpu[which], took = used, max(took, wall)
		}
		with, without, turn = with+cpu[0], without+cpu[1], turn+took
		shares = append(shares, 100*(cpu[0]-cpu[1]).Seconds()/took.Seconds())
	}
	n := time.Duration(b.size.rounds)
	b.report.add(row{
		ID: "indexing", What: "part of a turn's time for which the search index keeps a processor busy", Ours: fmt.Sprintf("%.1f %%", median(shares)),
		Numbers: []number{atMost("", median(shares), "%", 5)},
		Note: fmt.Sprintf("%d messages and %s deltas a turn, until the index has them; the server uses %s a turn of %s, without an index %s",
			wholeMessages, thousands(b.size.indexed), millis(with/n), millis(turn/n), millis(without/n)),
	})
	return nil
}

// turnCPU runs a turn. It returns the processor time that the server used for
// it, until its last message is found if the server has a search index, and how
// long the turn took.
func (s *runnel) turnCPU(ctx context.Context, events int, searches bool) (used, took time.Duration, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	r, err := read(ctx, c, overSSE, events, 0, stillWaiting)
	if err != nil {
		return 0, 0, err
	}
	server := []int{s.daemon.pid()}
	before, err := cpuTime(server)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := c.prompt(ctx, load.Plan{Events: events, Rate: paced, Items: wholeMessages}.Prompt()); err != nil {
		return 0, 0, err
	}
	if err := <-r.done; err != nil {
		return 0, 0, fmt.Errorf("after %d events: %w", r.tally.got(), err)
	}
	took = time.Since(began)
	for searches {
		page, _, err := s.search(ctx, fmt.Sprintf("kind=answer&q=%d", r.tally.first.UnixNano())) // the answer begins with this time
		if err != nil {
			return 0, 0, err
		}
		if searches = len(page.Hits) == 0; searches {
			time.Sleep(100 * time.Millisecond)
		}
	}
	after, err := cpuTime(server)
	if err != nil {
		return 0, 0, err
	}
	return after - before, took, c.end(ctx)
}
