package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A footprint is the memory of a program and its descendants, in bytes.
type footprint struct {
	between int // memory of the program itself and of its supervisors
	agents  int
}

func (f footprint) all() int { return f.between + f.agents }

// sessions are the numbers of open sessions to measure. Each has had one turn.
var sessions = []int{1, 3}

// claudeACPMemory measures one program after the other. Programs that run at
// the same time and map the same files would reduce each other's share.
func (b *bench) claudeACPMemory(ctx context.Context, s *runnel, same, bundled *acpAgent, own string) error {
	var ours, peer, alone [][]footprint // by number of sessions
	for i := range b.size.rounds {
		b.w.logf("memory of Claude Code through Runnel and through claude-agent-acp, round %d of %d", i+1, b.size.rounds)
		f, err := footprintThrough(ctx, s)
		if err != nil {
			return fmt.Errorf("memory through the server: %w", err)
		}
		ours = append(ours, f)
		if f, err = same.footprint(ctx); err != nil {
			return fmt.Errorf("memory through claude-agent-acp: %w", err)
		}
		peer = append(peer, f)
		if f, err = bundled.footprint(ctx); err != nil {
			return fmt.Errorf("memory through claude-agent-acp with its own agent: %w", err)
		}
		alone = append(alone, f)
	}
	for i, n := range sessions {
		of := func(all [][]footprint, part func(footprint) int) int {
			return median(each(all, func(f []footprint) int { return part(f[i]) }))
		}
		between, agents := func(f footprint) int { return f.between }, func(f footprint) int { return f.agents }
		compare := func(w *row, part func(footprint) int) {
			o, p := float64(of(ours, part)), float64(of(peer, part))
			w.Ours, w.Peer = megabytes(int(o)), fmt.Sprintf("claude-agent-acp %s; ratio %.2f", megabytes(int(p)), ratio(o, p))
			w.Numbers = keep(lower("", o/1e6, "MB"), ratioAtMost("", o, p, "claude-agent-acp", 0.7))
		}
		whole := row{
			ID:   fmt.Sprintf("memory/%d", n),
			What: fmt.Sprintf("Claude Code: memory of all processes, sessions: %d", n),
			Note: fmt.Sprintf("median of %d; proportional set size after a turn in each, of our server, its supervisors and the agents (of it %s), and of claude-agent-acp and its agents (of it %s); with the %s that it brings %s",
				len(ours), megabytes(of(ours, agents)), megabytes(of(peer, agents)), own, megabytes(of(alone, footprint.all))),
		}
		compare(&whole, footprint.all)
		rest := row{ID: fmt.Sprintf("memory/%d/between", n), What: fmt.Sprintf("Claude Code: the same without the agents themselves, sessions: %d", n), Note: "the server and its supervisors; beside it what runs in Node.js"}
		compare(&rest, between)
		b.report.add(whole, rest)
	}
	return nil
}

// footprintThrough measures Runnel. It starts a new server each time.
func footprintThrough(ctx context.Context, s *runnel) (out []footprint, err error) {
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	defer s.stop()
	var opened []conversation
	for _, n := range sessions {
		for len(opened) < n {
			c, err := s.open(ctx)
			if err != nil {
				return nil, err
			}
			opened = append(opened, c)
			if _, err := firstOfTurn(ctx, c, time.Now(), 1); err != nil {
				return nil, err
			}
		}
		f, err := footprintOf(ctx, s.daemon.pid())
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	for _, c := range opened {
		err = errors.Join(err, c.end(ctx))
	}
	return out, err
}

func (a *acpAgent) footprint(ctx context.Context) (out []footprint, err error) {
	t, err := a.initialized(ctx)
	if t != nil {
		defer func() { err = errors.Join(err, t.end(ctx)) }()
	}
	if err != nil {
		return nil, err
	}
	opened := 0
	for _, n := range sessions {
		for ; opened < n; opened++ {
			session, err := a.newSession(t)
			if err != nil {
				return nil, err
			}
			if _, err := a.turn(t, session); err != nil {
				return nil, err
			}
		}
		f, err := footprintOf(ctx, t.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// footprintOf measures a process and its descendants once their memory is
// almost constant.
func footprintOf(ctx context.Context, root int) (f footprint, err error) {
	const steady = 10 // measurements, which take a second
	same := 0
	err = until(ctx, 15*time.Second, func() (bool, error) {
		last := f.all()
		if f, err = footprintNow(root); err != nil {
			return false, err
		}
		if now := f.all(); now > last*99/100 && now < last*101/100 {
			same++
		} else {
			same = 0
		}
		return same == steady, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil // the memory still changes; use the last value
	}
	return f, err
}

func footprintNow(root int) (f footprint, err error) {
	pids, err := tree(root)
	if err != nil {
		return f, err
	}
	for _, pid := range pids {
		size, err := proportional(pid)
		if err != nil {
			return f, err
		}
		if pid == root || supervises(pid) {
			f.between += size
		} else {
			f.agents += size
		}
	}
	return f, nil
}
