package fakemodel

import (
	"context"
	"sync"
)

// A Gate makes a step wait until the test opens the gate. An open gate stays
// open.
type Gate struct {
	reached, open         chan struct{}
	reachedOnce, openOnce sync.Once
}

func newGate() *Gate {
	return &Gate{reached: make(chan struct{}), open: make(chan struct{})}
}

// Reached returns a channel that is closed when the first response waits at the
// gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open opens the gate for all responses. It may be called more than once.
func (g *Gate) Open() { g.openOnce.Do(func() { close(g.open) }) }

func (g *Gate) wait(ctx context.Context) error {
	g.reachedOnce.Do(func() { close(g.reached) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
