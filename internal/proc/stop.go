package proc

import (
	"context"
	"os"
	"time"
)

// Ladder defines how a child is asked to end before it is killed. Its rungs are
// climbed in the order of the fields, as far as necessary. The last rung, which
// has no field, is SIGKILL for the child and every descendant. A stop request
// in the agent's own protocol is up to the caller and comes first.
//
// On Windows Interrupt is a break event, and Terminate only waits.
type Ladder struct {
	Drain     time.Duration // after closing stdin. Default: stdin is not closed
	Interrupt time.Duration // after SIGINT to the child. Default 1.5 s; less than 0: no SIGINT
	Terminate time.Duration // after SIGTERM to the child. Default 1.5 s; less than 0: no SIGTERM
}

// Now is the Ladder that kills without asking.
var Now = Ladder{Interrupt: -1, Terminate: -1}

const (
	defaultGrace = 1500 * time.Millisecond
	lookEvery    = 200 * time.Millisecond // how often new descendants are looked up during a grace period
)

// rung is one step of a Ladder.
type rung int

const (
	asIs rung = iota
	interrupted
	terminated
)

// Stop ends the child and all its descendants, and returns when Done is closed.
//
// ctx bounds only the wait: the climb always continues to its end. Stop may be
// called again at any time, also concurrently. No signal is sent twice, and the
// fastest ladder wins.
func (p *Process) Stop(ctx context.Context, l Ladder) error {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stopping)
	}
	if !p.over {
		p.climbers.Add(1)
		go p.climb(l)
	}
	p.mu.Unlock()
	_, err := p.Wait(ctx)
	if closed(p.done) {
		return nil
	}
	return err
}

func (p *Process) climb(l Ladder) {
	defer p.climbers.Done()
	if l.Drain > 0 {
		p.CloseStdin()
		if p.endsWithin(l.Drain) {
			return
		}
	}
	for _, step := range []struct {
		rung  rung
		grace time.Duration
	}{{interrupted, l.Interrupt}, {terminated, l.Terminate}} {
		if step.grace < 0 {
			continue
		}
		p.signal(step.rung)
		if p.endsWithin(withDefault(step.grace, defaultGrace)) {
			return
		}
	}
	p.kill()
}

// signal takes rung r unless it or a higher one was taken before.
func (p *Process) signal(r rung) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r <= p.highest || closed(p.exited) {
		return
	}
	p.highest = r
	living, _ := p.tree.look() // after the signal its children may lose their link to it
	if p.boxed && askChildren(p.tree.root.pid, living, r) {
		return
	}
	ask(p.cmd.Process, r)
}

// askChildren asks the living children of a process to end, and reports whether
// there are any.
func askChildren(of int, living []member, r rung) (any bool) {
	for _, m := range living {
		if m.ppid != of {
			continue
		}
		if child, err := os.FindProcess(m.pid); err == nil {
			ask(child, r) // the child's parent has not reaped it, or the id is not reused within moments
			_ = child.Release()
			any = true
		}
	}
	return any
}

// endsWithin waits up to d for the child's exit and reports whether it ended.
// Meanwhile it looks up new descendants.
func (p *Process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.exited:
			return true
		case <-timer.C:
			return closed(p.exited)
		case <-tick.C:
			p.tree.look()
		}
	}
}

// kill kills the descendants first. The child is stopped meanwhile, so that it
// starts no more of them and they keep their link to it.
func (p *Process) kill() {
	freeze(p.cmd.Process)
	p.tree.sweep()
	force(p.cmd.Process)
}
