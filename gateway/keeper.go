package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The keeper writes the records of sessions that changed. Sessions must not
// wait for the catalogue, so they only leave word here.
type keeper struct {
	mu      sync.Mutex
	changed map[*entry]struct{}
	kick    chan struct{} // one token: changed is not empty
	urgent  chan struct{} // one token: do not gather first

	// writing is held from looking at a record until it is written, so that an
	// older state never replaces a newer one.
	writing sync.Mutex
}

const (
	keepEvery = 100 * time.Millisecond // how long changes are gathered
	keepRetry = time.Second            // how long a failing catalogue is left alone
)

func (k *keeper) init() {
	k.changed = make(map[*entry]struct{})
	k.kick, k.urgent = make(chan struct{}, 1), make(chan struct{}, 1)
}

func (k *keeper) dirty(e *entry, urgent bool) {
	k.mu.Lock()
	k.changed[e] = struct{}{}
	k.mu.Unlock()
	token(k.kick)
	if urgent {
		token(k.urgent)
	}
}

func (k *keeper) forget(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.changed, e)
}

func (k *keeper) take() []*entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*entry, 0, len(k.changed))
	for e := range k.changed {
		out = append(out, e)
	}
	clear(k.changed)
	return out
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// keep runs until the gateway is closed, and then once more.
func (g *Gateway) keep() {
	for {
		select {
		case <-g.keeper.kick:
		case <-g.ctx.Done():
			g.write(context.WithoutCancel(g.ctx))
			return
		}
		wait := keepEvery
		if !g.write(g.ctx) {
			wait = keepRetry
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-g.keeper.urgent:
		case <-g.ctx.Done():
		}
		pause.Stop()
	}
}

// write puts the changed records into the catalogue. What it cannot write it
// keeps for the next time, and reports false.
func (g *Gateway) write(ctx context.Context) bool {
	ok := true
	for _, e := range g.keeper.take() {
		if err := g.put(ctx, e); err != nil {
			ok = false
			g.log.LogAttrs(ctx, slog.LevelError, "session record not written", slog.String("session", e.rec.ID), slog.String("error", err.Error()))
			g.keeper.dirty(e, false) // also if the gateway is closing: it writes once more
		}
	}
	return ok
}

// retire ends the writing of e's record by e: what follows writes its own, or
// nobody does. The keeper may have taken e already.
func (g *Gateway) retire(e *entry) {
	g.keeper.writing.Lock()
	e.retired = true
	g.keeper.writing.Unlock()
	g.keeper.forget(e)
}

// put writes e's record as it is now.
func (g *Gateway) put(ctx context.Context, e *entry) error {
	g.keeper.writing.Lock()
	defer g.keeper.writing.Unlock()
	if e.retired {
		return nil
	}
	rec, _ := e.snapshot()
	if err := g.cfg.Catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	return nil
}
