package main

import (
	"context"
	"fmt"
	"time"
)

// memoryRows measures the memory of a new server, which has done nothing else.
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
	b.report.add(row{What: "resident memory of an idle server", ID: "idle", Ours: megabytes(idle), Numbers: []number{atMost("", float64(idle)/1e6, "MB", 22)}})

	b.w.logf("memory of sessions without an agent")
	warm, err := b.memoryWith(ctx, s, b.size.sessions/2) // the first sessions make the server load code and data that stay in memory
	if err != nil {
		return err
	}
	all, err := b.memoryWith(ctx, s, b.size.sessions)
	if err != nil {
		return err
	}
	each := max(0, float64(all-warm)/float64(b.size.sessions)/1000)
	b.report.add(row{
		ID: "session", What: "each further session without an agent", Ours: fmt.Sprintf("%.0f kB", each), Numbers: []number{atMost("", each, "kB", 50)},
		Note: fmt.Sprintf("growth of resident memory, garbage included, from %d sessions whose agents have ended to %d: %s to %s", b.size.sessions/2, b.size.sessions/2+b.size.sessions, megabytes(warm), megabytes(all)),
	})
	return b.supervisorRow(ctx)
}

// memoryWith opens more sessions and waits until their idle agents have ended.
// It returns the memory that the server uses then.
func (b *bench) memoryWith(ctx context.Context, s *runnel, more int) (int, error) {
	const atOnce = 50 // stay below the limit of new sessions per credential and minute
	for opened := 0; opened < more; {
		if err := s.credential(ctx); err != nil {
			return 0, err
		}
		for range min(atOnce, more-opened) {
			if _, err := s.open(ctx); err != nil {
				return 0, err
			}
			opened++
		}
		err := until(ctx, time.Minute, func() (bool, error) {
			all, err := b.w.processes()
			return len(all) == 1, err
		})
		if err != nil {
			return 0, fmt.Errorf("idle agents do not end: %w", err)
		}
	}
	return settled(ctx, s.daemon.pid())
}

// supervisorRow measures the supervisor of an agent.
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
	all, err := b.w.processes()
	if err != nil {
		return err
	}
	var sizes, owns []int
	for _, p := range all {
		if p.supervises() {
			size, err := settled(ctx, p.pid)
			if err != nil {
				return err
			}
			_, own, err := memory(p.pid)
			if err != nil {
				return err
			}
			sizes, owns = append(sizes, size), append(owns, own)
		}
	}
	own := float64(median(owns)) / (1 << 20)
	w := row{ID: "supervisor", What: "each supervisor", Ours: mebibytes(median(owns)) + " of its own", Numbers: []number{atMost("", own, "MiB", 2)}}
	w.Note = fmt.Sprintf("%s resident, with what it shares with the server's program; median of %d for %d agents", mebibytes(median(sizes)), len(sizes), agents)
	if len(sizes) == 0 {
		w.Ours, w.Numbers, w.Target, w.Note = unmeasured, nil, "≤ 2 MiB", "no supervisor runs here: agents are children of the server"
	}
	b.report.add(w)
	return nil
}

// settled waits until the memory of a process is constant and returns it.
func settled(ctx context.Context, pid int) (size int, err error) {
	const steady = 80 // longer than a server needs to find that it is idle
	same := 0
	err = until(ctx, 40*time.Second, func() (bool, error) {
		now, _, err := memory(pid)
		if now == size {
			same++
		} else {
			size, same = now, 0
		}
		return same == steady, err
	})
	if size > 0 && ctx.Err() == nil {
		err = nil // the memory still changes; use the last value
	}
	return size, err
}

// until calls holds every 100 ms until it returns true or an error, or timeout
// has passed.
func until(ctx context.Context, timeout time.Duration, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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

func mebibytes(n int) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
