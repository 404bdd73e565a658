package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// paced is the rate at which latency is measured, in events per second. A fast
// model is about as fast.
const paced = 195

// A latencySample holds what one reader of an answer at a steady rate received.
type latencySample struct {
	spread
	cpu      time.Duration // processor time of the servers, per 1,000 events
	relay    time.Duration // the part of cpu that supervisors used
	switches float64       // context switches of the servers, per event
	calls    float64       // system calls of the servers, per event; 0 if they were not traced
	lost     int
}

// measureLatency measures an answer that the agent writes at a steady rate and
// that one reader receives. If traced is true, it also counts system calls,
// which makes the servers slow.
func measureLatency(ctx context.Context, s subject, transport string, events int, traced bool) (out latencySample, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return out, err
	}
	r, err := read(ctx, c, transport, events, 0, stillWaiting)
	if err != nil {
		return out, err
	}
	pids, err := s.servers()
	if err != nil {
		return out, err
	}
	var calls func() (int, error)
	if traced {
		if calls, err = traceCalls(ctx, pids); err != nil {
			return out, err
		}
	}
	before, relayed, err := cpuSplit(pids)
	if err != nil {
		return out, err
	}
	switched, err := contextSwitches(pids)
	if err != nil {
		return out, err
	}
	if err := c.prompt(ctx, load.Plan{Events: events, Rate: paced}.Prompt()); err != nil {
		return out, err
	}
	if err := <-r.done; err != nil {
		return out, fmt.Errorf("after %d events: %w", r.tally.got(), err)
	}
	after, relayedAfter, err := cpuSplit(pids)
	if err != nil {
		return out, err
	}
	switchedAfter, err := contextSwitches(pids)
	if err != nil {
		return out, err
	}
	per := 1000 / float64(events)
	out = latencySample{
		spread: spreadOf(r.tally.latencies), lost: r.tally.lost(),
		cpu: time.Duration(float64(after-before) * per), relay: time.Duration(float64(relayedAfter-relayed) * per),
		switches: float64(switchedAfter-switched) / float64(events),
	}
	if traced {
		n, err := calls()
		if err != nil {
			return out, err
		}
		out.calls = float64(n) / float64(events)
	}
	return out, c.end(ctx)
}

// cpuSplit returns the processor time of all processes, and of all but the
// first.
func cpuSplit(pids []int) (all, rest time.Duration, err error) {
	if len(pids) == 0 {
		return 0, 0, nil
	}
	first, err := cpuTime(pids[:1])
	if err != nil {
		return 0, 0, err
	}
	rest, err = cpuTime(pids[1:])
	return first + rest, rest, err
}

// stillWaiting is how long a reader waits for the next message. Then it counts
// the rest as lost.
const stillWaiting = 15 * time.Second

// A lane is a subject and one of its transports.
type lane struct {
	s         subject
	transport string
}

func (l lane) String() string { return l.s.name() + " over " + l.transport }

// inTurn measures the lanes alternately, several times. Every second round runs
// in reverse, so that none of the lanes always follows the same other.
func (b *bench) inTurn(ctx context.Context, lanes []lane) (map[lane][]latencySample, error) {
	got := make(map[lane][]latencySample)
	for round := range b.size.rounds {
		order := slices.Clone(lanes)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, l := range order {
			b.w.logf("latency, round %d of %d: %s", round+1, b.size.rounds, l)
			st, err := measureLatency(ctx, l.s, l.transport, b.size.paced, false)
			if err != nil {
				return nil, fmt.Errorf("latency of %s: %w", l, err)
			}
			got[l] = append(got[l], st)
		}
	}
	return got, nil
}

// latencyRows compares the medians of Runnel's lanes with those of the others.
func (b *bench) latencyRows(ctx context.Context, lanes []lane) error {
	got, err := b.inTurn(ctx, lanes)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.s != b.ours {
			continue
		}
		ours := typical(got[l])
		w := row{
			ID:   l.transport,
			What: fmt.Sprintf("agent writes a delta → client has it, %d/s, durable, %s; p50 / p95 / p99", paced, l.transport),
			Ours: ours.String(), Note: shortfall(got[l]), Numbers: ours.numbers(),
		}
		for _, other := range lanes {
			if other.transport == overPipe {
				w.Note += "; " + other.s.name() + " through a pipe " + typical(got[other]).String()
			} else if other.s != b.ours {
				w.compareWith(other.s.name(), "keeps nothing", ours, typical(got[other]), 0.9, 1)
			}
		}
		if w.Peer == "" {
			w.Target = "p50 ≤ 0.9× sandbox-agent; p99 ≤ 1× sandbox-agent"
		}
		b.report.add(w)
	}
	b.cpuRow(lanes, got)
	b.switchesRow(lanes, got)
	return b.callsRow(ctx, lanes)
}

// switchesRow compares the context switches per event. Unlike times, they
// hardly depend on the machine.
func (b *bench) switchesRow(lanes []lane, got map[lane][]latencySample) {
	b.perEvent(row{ID: "switches", What: fmt.Sprintf("context switches of server and supervisor per event at %d/s, one reader", paced)}, 2.5, lanes,
		func(l lane) float64 { return median(each(got[l], func(s latencySample) float64 { return s.switches })) })
}

// callsRow compares the system calls per event. They are counted in runs of
// their own.
func (b *bench) callsRow(ctx context.Context, lanes []lane) error {
	w := row{ID: "calls", What: fmt.Sprintf("system calls of server and supervisor per event at %d/s, one reader", paced)}
	if why := cannotTrace(); why != "" {
		w.Target, w.Ours, w.Note = "≤ 8", unmeasured, why
		b.report.add(w)
		return nil
	}
	calls := make(map[lane]float64)
	for _, l := range lanes {
		if l.transport == overPipe {
			continue
		}
		b.w.logf("system calls: %s", l)
		st, err := measureLatency(ctx, l.s, l.transport, b.size.paced, true)
		if err != nil {
			return fmt.Errorf("system calls of %s: %w", l, err)
		}
		calls[l] = st.calls
	}
	b.perEvent(w, 8, lanes, func(l lane) float64 { return calls[l] })
	return nil
}

// perEvent adds a row with one number for each lane of a server.
func (b *bench) perEvent(w row, target float64, lanes []lane, value func(lane) float64) {
	for _, l := range lanes {
		cell := fmt.Sprintf("%s %.1f", l.transport, value(l))
		switch {
		case l.transport == overPipe:
		case l.s == b.ours:
			w.Ours = join(w.Ours, cell)
			n := atMost(l.transport, value(l), "", target)
			n.Margin = ratioMargin
			w.Numbers = append(w.Numbers, n)
		default:
			w.Peer = join(w.Peer, l.s.name()+" (not durable) "+cell)
		}
	}
	b.report.add(w)
}

func (b *bench) cpuRow(lanes []lane, got map[lane][]latencySample) {
	w := row{ID: "cpu", What: fmt.Sprintf("processor time of server and supervisor for 1,000 events at %d/s, one reader", paced)}
	used := func(l lane) time.Duration {
		return median(each(got[l], func(s latencySample) time.Duration { return s.cpu }))
	}
	for _, l := range lanes {
		cell := fmt.Sprintf("%s %s", l.transport, millis(used(l)))
		if l.s == b.ours {
			w.Ours = join(w.Ours, cell)
			w.Numbers = append(w.Numbers, lower(l.transport, ms(used(l)), "ms"))
			for _, other := range lanes {
				if other.s != b.ours && other.transport != overPipe {
					w.Numbers = append(w.Numbers, keep(ratioAtMost(l.transport, ms(used(l)), ms(used(other)), other.s.name(), 1))...)
				}
			}
			w.Note = join(w.Note, fmt.Sprintf("%s: %s of it the supervisor's", l.transport, millis(median(each(got[l], func(s latencySample) time.Duration { return s.relay })))))
		} else if l.transport != overPipe {
			w.Peer = join(w.Peer, l.s.name()+" (not durable) "+cell)
		}
	}
	if w.Peer == "" {
		w.Target = "≤ 1× sandbox-agent"
	}
	b.report.add(w)
}

// typical returns the medians of the rounds.
func typical(all []latencySample) spread {
	return medians(each(all, func(s latencySample) spread { return s.spread }))
}

func shortfall(all []latencySample) string {
	lost := 0
	for _, s := range all {
		lost += s.lost
	}
	text := fmt.Sprintf("median of %d; nothing lost", len(all))
	if lost > 0 {
		text = fmt.Sprintf("median of %d; %d lost", len(all), lost)
	}
	if len(all) > 1 {
		text += "; the first run " + all[0].spread.String()
	}
	return text
}

func each[T, U any](in []T, f func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func ratio[T ~int64 | ~float64](a, b T) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func join(list, more string) string {
	if list == "" {
		return more
	}
	return list + "; " + more
}
