package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// A crash holds the results of killing a server once in the middle of a turn.
type crash struct {
	seen, kept int    // deltas that the client received; how many of them the log has after the restart
	ends       int    // number of ends of the turn
	how        string // how the turn ended the first time
	missing    int    // deltas of the plan that are missing after the restart
	left       int    // processes of the agent 1 s after the kill
	leftAfter  int    // the same 1 s after restart, end of the turn and end of the session
}

const (
	crashEvents = 400 // about two seconds at the rate paced
	afterEnd    = 500 * time.Millisecond
)

// measureCrash kills the server. after is the number of deltas that a reader
// has received by then. measureCrash counts the processes that still run, and
// starts the server again with the same data.
func (b *bench) measureCrash(ctx context.Context, l lane, after int) (out crash, err error) {
	defer func() {
		if sweepErr := b.w.sweep(); err == nil {
			err = sweepErr
		}
	}()
	if err := l.s.start(ctx); err != nil {
		return out, err
	}
	c, err := l.s.open(ctx)
	if err != nil {
		l.s.stop()
		return out, err
	}
	before, err := readUntilKilled(ctx, l, c, after)
	if err != nil {
		return out, err
	}
	for _, times := range before.seen {
		out.seen += min(times, 1)
	}
	time.Sleep(time.Second)
	if out.left, err = b.agents(); err != nil {
		return out, err
	}
	if err := l.s.start(ctx); err != nil {
		return out, fmt.Errorf("restart: %w", err)
	}
	defer l.s.stop()
	log, ends := readToTheEnd(ctx, l, c)
	for n, times := range before.seen {
		if there := log.seen[n] > 0 || log.whole[n]; times > 0 && there {
			out.kept++
		}
	}
	out.missing = log.lost()
	out.ends, out.how = len(ends), "never"
	if len(ends) > 0 {
		out.how = ends[0]
	}
	_ = c.end(ctx) // fails if the subject lost the session
	time.Sleep(time.Second)
	out.leftAfter, err = b.agents()
	return out, err
}

// agents counts the processes that are not servers: agents, processes that they
// started, and supervisors.
func (b *bench) agents() (n int, err error) {
	all, err := b.w.processes()
	for _, p := range all {
		if !slices.Contains(p.args, "serve") && !slices.Contains(p.args, "server") {
			n++
		}
	}
	return n, err
}

func readUntilKilled(ctx context.Context, l lane, c conversation, after int) (*tally, error) {
	t := newTally(crashEvents)
	open, broken, killed := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		broken <- c.follow(ctx, l.transport, func() { close(open) }, func(m message) bool {
			t.add(m)
			if t.got() == after {
				go func() {
					l.s.kill()
					close(killed)
				}()
			}
			return m.end != ""
		})
	}()
	select {
	case <-open:
	case err := <-broken:
		return nil, err
	}
	if err := c.prompt(ctx, load.Plan{Events: crashEvents, Rate: paced, Tool: true}.Prompt()); err != nil {
		return nil, err
	}
	<-broken
	if t.got() >= after {
		<-killed
	}
	if t.end != "" || t.got() < after {
		return nil, fmt.Errorf("the turn ended (%q) or broke off after %d events, before the server was killed", t.end, t.got())
	}
	return t, nil
}

// readToTheEnd reads the session from its start. It stops afterEnd after the
// end of the turn, or after stillWaiting.
func readToTheEnd(ctx context.Context, l lane, c conversation) (t *tally, ends []string) {
	t = newTally(crashEvents)
	ctx, cancel := context.WithTimeout(ctx, stillWaiting)
	defer cancel()
	_ = c.follow(ctx, l.transport, func() {}, func(m message) bool { // the error does not matter; the tally shows what is missing
		t.add(m)
		if m.end != "" {
			ends = append(ends, m.end)
			time.AfterFunc(afterEnd, cancel)
		}
		return false
	})
	return t, ends
}

func (b *bench) crashRows(ctx context.Context, lanes []lane) error {
	got := make(map[lane][]crash)
	for i := range b.size.kills {
		for _, l := range lanes {
			after := 40 + 37*i%(crashEvents/2)
			b.w.logf("kill -9 of the server, %d of %d: %s", i+1, b.size.kills, l)
			one, err := b.measureCrash(ctx, l, after)
			if err != nil {
				return fmt.Errorf("kill of %s: %w", l, err)
			}
			got[l] = append(got[l], one)
		}
	}
	for _, l := range lanes {
		ours, ok := l.s.(*runnel)
		if !ok {
			continue
		}
		rows := crashCells(got[l], strings.Join(ours.flags, " "))
		for _, other := range lanes {
			if _, ok := other.s.(*runnel); !ok && l.s == b.ours {
				for i, cell := range crashCells(got[other], "") {
					rows[i].Peer = other.s.name() + " " + cell.Ours
				}
			}
		}
		b.report.add(rows...)
	}
	return nil
}

// crashCells adds up the results of all kills. how describes the server's
// flags, if it has any.
func crashCells(all []crash, how string) []row {
	sum := crash{}
	hows := map[string]int{}
	once, worst, worstAfter := 0, 0, 0
	continued := 0
	for _, c := range all {
		sum.seen += c.seen
		sum.kept += c.kept
		end := c.how
		if c.how == "completed" && c.missing == 0 {
			end = "continued and completed"
			continued++
		}
		hows[end]++
		if c.ends == 1 {
			once++
		}
		worst, worstAfter = max(worst, c.left), max(worstAfter, c.leftAfter)
	}
	ends := ""
	for _, name := range slices.Sorted(maps.Keys(hows)) {
		ends = join(ends, fmt.Sprintf("%s %d×", name, hows[name]))
	}
	if how != "" {
		how = ", " + how
	}
	what := fmt.Sprintf("kill -9 of the server in a turn%s, %d times: ", how, len(all))
	left := "the most of any kill; the agent has a tool running in a session of its own"
	remaining := []number{atMost("left after the restart", float64(worstAfter), "", 0)}
	if continued > 0 {
		left += ". Meanwhile the supervisor keeps them for the server to come back"
	}
	if continued == 0 { // nothing may be left
		remaining = append(remaining, atMost("left at once", float64(worst), "", 0))
	}
	return []row{
		{
			ID: "kept" + how, What: what + "of the deltas the client had seen, kept", Ours: fmt.Sprintf("%d of %d", sum.kept, sum.seen),
			Numbers: []number{atMost("lost", float64(sum.seen-sum.kept), "", 0)},
		}, {
			ID: "ends" + how, What: what + "turns that ended exactly once after the restart", Ours: fmt.Sprintf("%d of %d (%s)", once, len(all), ends),
			Numbers: []number{atMost("turns that ended otherwise", float64(len(all)-once), "", 0)},
		}, {
			ID: "left" + how, What: what + "processes left after 1 s; 1 s after restart and end of the session", Ours: fmt.Sprintf("%d; %d", worst, worstAfter), Note: left,
			Numbers: remaining,
		},
	}
}
