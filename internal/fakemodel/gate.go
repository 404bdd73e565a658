package fakemodel

import (
	"context"
	"sync"
)

// A Gate is a place in a step where the server waits for the test.
// Once open it stays open.
type Gate struct {
	reached, open         chan struct{}
	reachedOnce, openOnce sync.Once
}

func newGate() *Gate {
	return &Gate{reached: make(chan struct{}), open: make(chan struct{})}
}

// Reached is closed when a response has come to the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets every response through, now and later. It may be called more than once.
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
