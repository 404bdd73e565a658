package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A client follows the session's events. It loses its connection at random and
// resumes at its cursor.
type client struct {
	w    *world
	name string
	rng  *rand.Rand

	mu   sync.Mutex
	view []event.Event // received events: view[i] has seq i+1
}

// run connects again and again until the world ends.
func (c *client) run() {
	for {
		inc := c.w.current()
		if inc == nil {
			return
		}
		c.follow(inc)
		select {
		case <-c.w.over:
			return
		case <-time.After(time.Duration(c.rng.ExpFloat64() * float64(30*time.Millisecond))):
		}
	}
}

// follow reads events on one connection until that breaks.
func (c *client) follow(inc *incarnation) {
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	lasts := time.NewTimer(time.Duration(c.rng.ExpFloat64() * float64(c.w.plan.unstable)))
	defer lasts.Stop()
	done := make(chan struct{})
	defer close(done)
	c.w.work.Go(func() {
		for {
			select {
			case <-lasts.C:
				if !c.w.isCalm() {
					cut()
				}
			case <-inc.killed:
				cut()
				return
			case <-c.w.over:
				cut()
				return
			case <-done:
				return
			}
		}
	})
	c.w.count("connection")
	for ev, err := range runnel.Follow(ctx, inc.log, session, c.cursor()) {
		if err != nil || !inc.reach(func() { c.see(ev) }) {
			return
		}
		if c.rng.IntN(20) == 0 {
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(20*time.Millisecond)))
		}
	}
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

func (c *client) cursor() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.view))
}

func (c *client) see(ev event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Seq != int64(len(c.view))+1 {
		c.w.violation("%s has seen up to %d and is shown %d", c.name, len(c.view), ev.Seq)
		return
	}
	c.view = append(c.view, ev)
}

// approvals returns the approvals that are pending according to c's events, and
// those that were resolved.
func (c *client) approvals() (pending, old []event.Approval) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.view {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			pending = append(pending, b.Approval)
		case event.ApprovalResolved:
			if i := slices.IndexFunc(pending, func(a event.Approval) bool { return a.ID == b.ApprovalID }); i >= 0 {
				old = append(old, pending[i])
				pending = slices.Delete(pending, i, i+1)
			}
		}
	}
	return pending, old
}

// forget drops from all views what a power loss may remove: the events after
// the last one that [event.Decides] accepts. The log must still have the rest.
func (w *world) forget() {
	w.mu.Lock()
	clients, turns, p := w.clients, w.turns, w.paced
	w.mu.Unlock()
	for _, c := range clients {
		c.mu.Lock()
		c.view = certain(c.view)
		c.mu.Unlock()
	}
	for _, v := range turns { // needs no lock: every process is dead, so no view grows
		v.events = certain(v.events)
	}
	if p != nil {
		p.reset()
	}
}

func certain(view []event.Event) []event.Event {
	n := len(view)
	for n > 0 && !event.Decides(view[n-1].Body) {
		n--
	}
	return view[:n:n]
}

// A paced client receives whole items through an [upsert.Pacer], which it calls
// at random intervals.
type paced struct {
	w   *world
	rng *rand.Rand

	mu     sync.Mutex
	pacer  *upsert.Pacer
	cursor int64
	batch  []event.Event // received, and not yet given to pacer
	outs   []upsert.Out
}

func (p *paced) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacer, p.cursor, p.batch, p.outs = new(upsert.Pacer), 0, nil, nil
}

// run follows the session until the world ends. Each connection lasts as long
// as the process.
func (p *paced) run() {
	p.w.work.Go(p.take)
	for {
		inc := p.w.current()
		if inc == nil {
			return
		}
		ctx, cut := context.WithCancel(context.Background())
		p.w.work.Go(func() {
			defer cut()
			select {
			case <-inc.killed:
			case <-p.w.over:
			}
		})
		p.mu.Lock()
		after := p.cursor
		p.mu.Unlock()
		for ev, err := range runnel.Follow(ctx, inc.log, session, after) {
			if err != nil || !inc.reach(func() { p.see(ev) }) {
				break
			}
		}
		select {
		case <-p.w.over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *paced) see(ev event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch = append(p.batch, ev)
	p.cursor = ev.Seq
}

// take gives the batch to the pacer at random intervals and keeps its output.
func (p *paced) take() {
	for {
		select {
		case <-time.After(time.Duration(p.rng.ExpFloat64() * float64(100*time.Millisecond))):
		case <-p.w.over:
			return
		}
		p.mu.Lock()
		p.outs = append(p.outs, p.pacer.PushAll(p.batch, time.Now())...)
		p.outs = append(p.outs, p.pacer.Flush(time.Now())...)
		p.batch = nil
		p.mu.Unlock()
	}
}

// A turnView is what one reader of a turn received from a live process: the
// turn's events and its final status.
type turnView struct {
	turn   string
	events []event.Event
	status event.TurnStatus // "" if the end was not reported
}

// watch reads a turn through the handle that Send returned.
func (w *world) watch(inc *incarnation, t *runnel.Turn) {
	v := &turnView{turn: t.ID}
	w.mu.Lock()
	w.turns = append(w.turns, v)
	w.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w.work.Go(func() {
		select {
		case <-inc.killed:
			stop()
		case <-w.over:
			stop()
		case <-ctx.Done():
		}
	})
	for ev, err := range t.Events(ctx) {
		if err != nil || !inc.reach(func() { v.events = append(v.events, ev) }) {
			break
		}
	}
	res, err := t.Wait(ctx)
	inc.reach(func() {
		if err == nil || runnel.CodeOf(err) != runnel.StoreUnavailable && ctx.Err() == nil {
			v.status = res.Status
		}
	})
}
