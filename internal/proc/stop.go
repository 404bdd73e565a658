package proc

import (
	"context"
	"time"
)

// Ladder says how a child is asked to end before it is made to. It is climbed
// from the top, as far as needed; the last rung, which has no field, is SIGKILL
// for the child and every descendant. What can be asked for in the agent's own
// protocol comes before all of it, and is the caller's.
//
// On Windows Interrupt is a break event, and there is nothing between that and
// the end.
type Ladder struct {
	Drain     time.Duration // after closing stdin. Default: stdin is not closed
	Interrupt time.Duration // after SIGINT to the child. Default 1.5 s; less than 0: no SIGINT
	Terminate time.Duration // after SIGTERM to the child. Default 1.5 s; less than 0: no SIGTERM
}

// Now is the Ladder that does not ask.
var Now = Ladder{Interrupt: -1, Terminate: -1}

const (
	defaultGrace = 1500 * time.Millisecond
	lookEvery    = 200 * time.Millisecond // during a grace: what is started then must be known too
)

// rung is one step of a Ladder.
type rung int

const (
	asIs rung = iota
	interrupted
	terminated
)

// Stop ends the child and everything it started, and returns when Done is
// closed.
//
// ctx bounds only this wait: once begun, the climb goes on to its end, also
// when the caller has gone. It may be called again, also meanwhile: no signal
// is sent twice, and the most impatient ladder counts.
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

// signal takes r unless it, or a higher one, was taken before.
func (p *Process) signal(r rung) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r <= p.highest || closed(p.exited) {
		return
	}
	p.highest = r
	p.tree.look() // afterwards its children may have lost their link to it
	ask(p.cmd.Process, r)
}

// endsWithin waits for the child's exit, and keeps an eye on what it starts
// meanwhile.
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

// kill ends the descendants first, with the child frozen so that it starts no
// more and they keep their link to it.
func (p *Process) kill() {
	freeze(p.cmd.Process)
	p.tree.sweep()
	force(p.cmd.Process)
}
