package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// counted is how many events the counts are taken over. Events before them are
// not counted: they load what is loaded only once.
type counted struct {
	warm   int
	paced  int // at the rate paced: context switches and writes
	traced int // at the rate paced, but slowed down by strace: system calls
	allocs int // as fast as the reader takes them; their number must be high, because the runtime counts small allocations late
}

func (c counted) all() int { return c.warm + c.allocs + c.paced + c.traced }

// steadyAfter is how long a server must run before counts are steady: in the
// three seconds after it has created its files, the store checks each of them
// before each append.
const steadyAfter = 4 * time.Second

// A tollgate lets the agent write one delta at a time.
type tollgate struct {
	listener net.Listener
	conn     net.Conn
	seen     chan int // number of each delta that the reader received
	next     int      // number of the next delta
}

// pass lets the agent write more deltas, one after another. If rate is not 0 it
// is the most deltas per second. The reader has received each of them before the
// next one may be written. So each is an event of its own even if the machine
// is busy, and the server is idle when pass returns.
func (g *tollgate) pass(ctx context.Context, deltas, rate int) error {
	due := time.Now()
	for range deltas {
		if rate > 0 {
			due = due.Add(time.Second / time.Duration(rate))
			time.Sleep(time.Until(due))
		}
		if _, err := g.conn.Write([]byte{1}); err != nil {
			return err
		}
		select {
		case n := <-g.seen:
			if n != g.next {
				return fmt.Errorf("delta %d instead of %d", n, g.next)
			}
		case <-time.After(stillWaiting):
			return fmt.Errorf("delta %d did not arrive", g.next)
		case <-ctx.Done():
			return ctx.Err()
		}
		g.next++
	}
	return nil
}

// counts holds what the server and its supervisors have done since their start,
// between two moments, or for each event.
type counts struct {
	switches         float64
	writes, written  float64 // calls that write, and their bytes, to files, pipes and sockets
	stored           float64 // bytes that writes have made the storage write
	allocs, allocing float64 // allocations of the server, and their bytes
}

func (c counts) minus(o counts) counts {
	return counts{c.switches - o.switches, c.writes - o.writes, c.written - o.written, c.stored - o.stored, c.allocs - o.allocs, c.allocing - o.allocing}
}

func (c counts) per(events int) counts {
	n := float64(events)
	return counts{c.switches / n, c.writes / n, c.written / n, c.stored / n, c.allocs / n, c.allocing / n}
}

// allocations reads what the Go runtime of the server has allocated.
func (s *runnel) allocations(ctx context.Context) (c counts, err error) {
	values, err := s.metrics(ctx, "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total")
	if err == nil {
		c.allocs, c.allocing = values[0], values[1]
	}
	return c, err
}

// processCounts reads what /proc tells of the server and its supervisors.
func (s *runnel) processCounts() (c counts, err error) {
	pids, err := s.servers()
	if err != nil {
		return c, err
	}
	switches, err := contextSwitches(pids)
	c.switches = float64(switches)
	if err != nil || cannotCount() != "" {
		return c, err
	}
	io, err := diskIO(pids)
	c.writes, c.written, c.stored = float64(io.writes), float64(io.written), float64(io.stored)
	return c, err
}

// measureCounts runs one answer whose deltas are written one after another and
// counts what some of them cost. calls is 0 if system calls cannot be counted.
func (b *bench) measureCounts(ctx context.Context, s *runnel, transport string) (per counts, calls float64, err error) {
	g, err := b.tollgate(ctx)
	if err != nil {
		return per, 0, err
	}
	defer g.listener.Close()
	c, err := s.open(ctx)
	if err != nil {
		return per, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan struct{}), make(chan error, 1)
	defer func() {
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		done <- c.follow(ctx, transport, func() { close(ready) }, func(m message) bool {
			for _, stamp := range load.Stamps(m.delta) {
				g.seen <- stamp.N
			}
			return m.end != ""
		})
	}()
	select {
	case <-ready:
	case err := <-done:
		return per, 0, err
	}
	n := b.size.counted
	if err := c.prompt(ctx, load.Plan{Events: n.all(), Gate: g.listener.Addr().String()}.Prompt()); err != nil {
		return per, 0, err
	}
	if g.conn, err = g.listener.Accept(); err != nil {
		return per, 0, err
	}
	defer g.conn.Close()
	if err := g.pass(ctx, n.warm, 0); err != nil {
		return per, 0, err
	}
	time.Sleep(steadyAfter)
	if noProc() == "" {
		per, err = countPaced(ctx, s, g, n.paced)
	} else {
		err = g.pass(ctx, n.paced, 0)
	}
	if err != nil {
		return per, 0, err
	}
	if cannotTrace() == "" {
		if calls, err = countCalls(ctx, s, g, n.traced); err != nil {
			return per, 0, err
		}
	} else if err := g.pass(ctx, n.traced, paced); err != nil {
		return per, 0, err
	}
	allocated, err := countAllocations(ctx, s, g, n.allocs) // last, because so many events start a checkpoint of the database
	if err != nil {
		return per, 0, err
	}
	per.allocs, per.allocing = allocated.allocs, allocated.allocing
	return per, calls, errors.Join(<-done, c.end(ctx))
}

// tollgate listens for an agent.
func (b *bench) tollgate(ctx context.Context) (*tollgate, error) {
	dir, err := b.w.fresh("gate")
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", dir+"/s")
	if err != nil {
		return nil, err
	}
	return &tollgate{listener: ln, seen: make(chan int, 1)}, nil
}

// readings is how often the server's metrics are read to learn what one reading
// allocates.
const readings = 10

// countAllocations counts what events allocate. The runtime adds small objects
// to its count when a block of them is full, so that each reading is wrong by
// some thousand objects. Many events make the error of two readings small.
func countAllocations(ctx context.Context, s *runnel, g *tollgate, events int) (per counts, err error) {
	first, err := s.allocations(ctx)
	if err != nil {
		return per, err
	}
	before := first
	for range readings {
		if before, err = s.allocations(ctx); err != nil {
			return per, err
		}
	}
	if err := g.pass(ctx, events, 0); err != nil {
		return per, err
	}
	after, err := s.allocations(ctx)
	return after.minus(before).minus(before.minus(first).per(readings)).per(events), err
}

// countPaced counts context switches and writes.
func countPaced(ctx context.Context, s *runnel, g *tollgate, events int) (per counts, err error) {
	before, err := s.processCounts()
	if err != nil {
		return per, err
	}
	if err := g.pass(ctx, events, paced); err != nil {
		return per, err
	}
	after, err := s.processCounts()
	return after.minus(before).per(events), err
}

func countCalls(ctx context.Context, s *runnel, g *tollgate, events int) (float64, error) {
	pids, err := s.servers()
	if err != nil {
		return 0, err
	}
	calls, err := traceCalls(ctx, pids)
	if err != nil {
		return 0, err
	}
	passed := g.pass(ctx, events, paced)
	n, err := calls()
	return float64(n) / float64(events), errors.Join(passed, err)
}

// A countRow is a row of the part counts, with a number for each transport.
type countRow struct {
	id, what, unit string
	of             func(counts) float64
	target         float64 // 0: not worse than the last table
	margin         float64
	busy           bool          // a busy machine changes the count
	cannot         func() string // why this machine cannot count it; "" if it can
}

// Runs on an idle machine and on one with ten times more work than processors
// differed by up to 6 % in allocations, 13 % in writes and allocated bytes, 15 %
// in system calls and 30 % in the rows with busy set. The margins are about
// twice that; pass widens them while other work keeps the processors busy.
var countRows = []countRow{
	{"allocs", "allocations of the server per event, from the agent's line to the client's socket", "", func(c counts) float64 { return c.allocs }, 10, 0.15, false, always},
	{"allocated", "bytes that the server allocates per event", "B", func(c counts) float64 { return c.allocing }, 0, 0.25, false, always},
	{"writes", "calls of server and supervisor that write, per event", "", func(c counts) float64 { return c.writes }, 0, 0.25, false, cannotCount},
	{"written", "bytes that server and supervisor write per event, to files, pipes and sockets", "B", func(c counts) float64 { return c.written }, 0, 0.25, false, cannotCount},
	{"stored", "bytes that reach the storage per event", "B", func(c counts) float64 { return c.stored }, 0, 0.35, true, cannotCount},
	{"switches", "context switches of server and supervisor per event, one event at a time", "", func(c counts) float64 { return c.switches }, 2.5, 0.3, true, noProc},
}

func always() string { return "" }

// countsRows measures what one event costs in counts, which do not depend on
// the speed of the machine.
func (b *bench) countsRows(ctx context.Context) error {
	// The search index would be written at some time after a turn: see the part
	// search.
	s, err := newRunnel(b.w, b.w.path("bin"), "RUNNEL_SEARCH=false")
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	transports := []string{overWS, overSSE}
	per, calls := make([]counts, len(transports)), make([]float64, len(transports))
	for i, t := range transports {
		b.w.logf("counts of one event over %s", t)
		if per[i], calls[i], err = b.measureCounts(ctx, s, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	for _, r := range countRows {
		b.countRow(r, transports, each(per, r.of))
	}
	b.countRow(callsPerEvent, transports, calls)
	return nil
}

// callsPerEvent is counted by strace, in events of its own.
var callsPerEvent = countRow{id: "calls", what: "system calls of server and supervisor per event, one event at a time", target: 8, margin: 0.35, cannot: cannotTrace}

// countRow adds a row with one value for each transport.
func (b *bench) countRow(r countRow, transports []string, values []float64) {
	w := row{ID: r.id, What: r.what}
	if why := r.cannot(); why != "" {
		w.Ours, w.Note, w.Target = unmeasured, why, "not worse than the last table"
		if r.target > 0 {
			w.Target = atMost("", 0, r.unit, r.target).limit()
		}
		b.report.add(w)
		return
	}
	for i, t := range transports {
		n := lower(t, values[i], r.unit)
		n.Margin, n.NoiseFree = r.margin, !r.busy
		if n.Target = &r.target; r.target == 0 {
			n = b.report.notWorse(r.id, n)
		}
		w.Numbers = append(w.Numbers, n)
		text := fmt.Sprintf("%.4g", values[i])
		if values[i] >= 1000 {
			text = thousands(values[i])
		}
		w.Ours = join(w.Ours, strings.TrimSpace(t+" "+text+" "+r.unit))
	}
	b.report.add(w)
}
