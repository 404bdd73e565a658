package main

import (
	"context"
	"fmt"
	"time"
)

// memoryRows measures a server of its own, so that nothing else was done with it.
func (b *bench) memoryRows(ctx context.Context) error {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	s.flags = []string{"--idle-timeout", "1s"}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	idle, err := settled(ctx, s.daemon.pid())
	if err != nil {
		return err
	}
	b.report.add(row{what: "resident memory of an idle server", target: "≤ 25 MB", ours: megabytes(idle)})

	b.w.say("memory of sessions without an agent")
	warm, err := b.memoryWith(ctx, s, b.size.sessions/2) // what the first ones make it load stays
	if err != nil {
		return err
	}
	all, err := b.memoryWith(ctx, s, b.size.sessions)
	if err != nil {
		return err
	}
	b.report.add(row{
		what: "each further session without an agent", target: "≤ 50 kB", ours: fmt.Sprintf("%.0f kB", float64(all-warm)/float64(b.size.sessions)/1000),
		note: fmt.Sprintf("growth of resident memory over %d sessions, garbage included: %s to %s", b.size.sessions, megabytes(warm), megabytes(all)),
	})
	return b.supervisorRow(ctx)
}

// memoryWith opens more sessions, waits until their agents have ended for lack
// of use and returns what the server holds then.
func (b *bench) memoryWith(ctx context.Context, s *runnel, more int) (int, error) {
	for range more {
		if _, err := s.open(ctx); err != nil {
			return 0, err
		}
	}
	err := until(ctx, time.Minute, func() (bool, error) {
		all, err := processes(b.w.dir)
		return len(all) == 1, err
	})
	if err != nil {
		return 0, fmt.Errorf("idle agents do not end: %w", err)
	}
	return settled(ctx, s.daemon.pid())
}

// supervisorRow measures what stands between a server and each of its agents.
func (b *bench) supervisorRow(ctx context.Context) error {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	const agents = 5
	for range agents {
		if _, err := s.open(ctx); err != nil {
			return err
		}
	}
	all, err := processes(b.w.dir)
	if err != nil {
		return err
	}
	var sizes []int
	for _, p := range all {
		if p.supervises() {
			size, err := settled(ctx, p.pid)
			if err != nil {
				return err
			}
			sizes = append(sizes, size)
		}
	}
	w := row{what: "each supervisor", target: "≤ 3 MiB", ours: fmt.Sprintf("%.1f MiB", float64(median(sizes))/(1<<20))}
	switch {
	case len(sizes) == 0:
		w.ours, w.note = "none", "this version has no supervisor: agents are children of the server"
	case len(sizes) != agents:
		w.note = fmt.Sprintf("%d supervisors for %d agents", len(sizes), agents)
	default:
		w.note = fmt.Sprintf("resident, program text included; median of %d", agents)
	}
	b.report.add(w)
	return nil
}

// settled waits until a process's memory does not change any more.
func settled(ctx context.Context, pid int) (size int, err error) {
	const steady = 5
	same := 0
	err = until(ctx, 20*time.Second, func() (bool, error) {
		now, err := memory(pid)
		if now == size {
			same++
		} else {
			size, same = now, 0
		}
		return same == steady, err
	})
	if size > 0 && ctx.Err() == nil {
		err = nil // it still moves: then the last value is as good as any
	}
	return size, err
}

// until looks every now and then whether something holds.
func until(ctx context.Context, patience time.Duration, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
