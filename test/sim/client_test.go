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

// A client follows the session, loses its connection and resumes where it was.
type client struct {
	w    *world
	name string
	rng  *rand.Rand

	mu   sync.Mutex
	view []event.Event // what it was shown: view[i] has position i+1
}

// run follows until all is over.
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

// follow is one connection.
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

// approvals returns those that c knows to be pending, and those that are not.
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

// forget drops what a loss of power may take: what came after the last thing
// that was decided. All before it has to be there still.
func (w *world) forget() {
	w.mu.Lock()
	clients, turns, p := w.clients, w.turns, w.paced
	w.mu.Unlock()
	for _, c := range clients {
		c.mu.Lock()
		c.view = certain(c.view)
		c.mu.Unlock()
	}
	for _, v := range turns { // nobody adds to them: every process is dead
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

// A paced client is shown whole items, as often as it can take them.
type paced struct {
	w   *world
	rng *rand.Rand

	mu     sync.Mutex
	pacer  *upsert.Pacer
	cursor int64
	batch  []event.Event // arrived and not folded
	outs   []upsert.Out
}

func (p *paced) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacer, p.cursor, p.batch, p.outs = new(upsert.Pacer), 0, nil, nil
}

// run follows until all is over; its connection lasts as long as the process.
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

// take shows what has piled up, now and then.
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

// A turnView is what one reader of a turn was shown, and told of its end, by a
// process that was alive.
type turnView struct {
	turn   string
	events []event.Event
	status event.TurnStatus // "": its end was not told
}

// watch reads a turn through its handle.
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
