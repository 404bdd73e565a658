package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// The load of a server with many readers and many sessions.
const (
	workers    = 200 // sessions that work at the same time
	workerRate = 10  // events per second of each
)

// readerRows measures many readers of one session: the memory of each while
// nothing happens, and the latency of each while the session works. It then
// measures many sessions that work at the same time.
func (b *bench) readerRows(ctx context.Context) error {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	n := b.size.idle
	s.flags = []string{
		fmt.Sprint("--max-streams=", 2*n), fmt.Sprint("--max-streams-per-credential=", 2*n), fmt.Sprint("--max-subscriptions=", 4*n),
		fmt.Sprint("--max-subscriptions-per-credential=", 4*n), fmt.Sprint("--max-connections=", 4*n), fmt.Sprint("--max-new-sessions-per-credential=", 10*workers),
		fmt.Sprint("--max-sessions=", 10*workers), fmt.Sprint("--max-sessions-per-credential=", 10*workers),
		fmt.Sprint("--max-agents=", 10*workers), fmt.Sprint("--max-agents-per-credential=", 10*workers),
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	for _, transport := range []string{overSSE, overWS} {
		if err := b.idleReaders(ctx, s, transport, n); err != nil {
			return fmt.Errorf("%d readers by %s: %w", n, transport, err)
		}
	}
	return b.workerRow(ctx, s)
}

func (b *bench) idleReaders(ctx context.Context, s *runnel, transport string, n int) error {
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	const events = 50
	// The first readers are not measured: with them the server loads code and
	// data that stay in memory.
	warm, err := readMany(ctx, c, transport, max(n/10, 1), events)
	if err != nil {
		return err
	}
	before, err := settled(ctx, s.daemon.pid())
	if err != nil {
		return err
	}
	readers, err := readMany(ctx, c, transport, n, events)
	if err != nil {
		return err
	}
	after, err := settled(ctx, s.daemon.pid())
	if err != nil {
		return err
	}
	if err := c.prompt(ctx, load.Plan{Events: events, Rate: workerRate}.Prompt()); err != nil {
		return err
	}
	var got crowdResult
	got.add(append(readers, warm...))
	what := fmt.Sprintf("%s readers of one session, %s", thousands(n), transport)
	idle := float64(after-before) / float64(n) / 1000
	b.report.add(row{
		ID: transport + "/idle", What: what + ": memory of each while idle", Ours: fmt.Sprintf("%.1f kB", idle), Numbers: []number{atMost("", idle, "kB", 20)},
		Note: fmt.Sprintf("growth of resident memory, garbage included: %s to %s", megabytes(before), megabytes(after)),
	}, row{
		ID: transport + "/delay", What: fmt.Sprintf("%s, %d events/s; p50 / p95 / p99", what, workerRate), Ours: got.spread.String(), Numbers: got.within(20*time.Millisecond, "p99"),
	}, row{
		ID: transport + "/kept", What: fmt.Sprintf("%s, %d events/s", what, workerRate), Ours: got.faults(), Numbers: kept(got.lost, got.duplicated),
	})
	return c.end(ctx)
}

// readMany starts n readers, some at a time.
func readMany(ctx context.Context, c conversation, transport string, n, events int) ([]*reader, error) {
	readers, errs := make([]*reader, n), make([]error, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			readers[i], errs[i] = read(ctx, c, transport, events, 0, 5*time.Minute)
			<-slots
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return readers, nil
}

// workerRow measures many sessions that work at the same time. Only the large
// run starts so many agents.
func (b *bench) workerRow(ctx context.Context, s *runnel) error {
	n, events := workers, 10*workerRate
	if b.size.idle < 100 {
		n, events = 5, workerRate
	}
	var of []conversation
	for range n {
		c, err := s.open(ctx)
		if err != nil {
			return err
		}
		of = append(of, c)
	}
	readers, err := readTogether(ctx, of, events)
	if err != nil {
		return err
	}
	pids, err := s.servers()
	if err != nil {
		return err
	}
	before, err := cpuTime(pids)
	if err != nil {
		return err
	}
	for _, c := range of {
		if err := c.prompt(ctx, load.Plan{Events: events, Rate: workerRate}.Prompt()); err != nil {
			return err
		}
	}
	var got crowdResult
	got.add(readers)
	after, err := cpuTime(pids)
	if err != nil {
		return err
	}
	for _, c := range of {
		if err := c.end(ctx); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d working sessions with %d events/s each, WebSocket, one connection", n, workerRate)
	b.report.add(row{
		ID: "workers/delay", What: what + "; p50 / p95 / p99", Ours: got.spread.String(), Numbers: got.within(20*time.Millisecond, "p99"),
		Note: fmt.Sprintf("processor time of server and supervisors %s per 1,000 events", millis((after-before)*1000/time.Duration(n*events))),
	}, row{ID: "workers/kept", What: what, Ours: got.faults(), Numbers: kept(got.lost, got.duplicated)})
	return nil
}
