// Package atonce limits how much happens at the same time, by key.
package atonce

import (
	"context"
	"sync"
)

// A Limit limits how many callers with the same key run at the same time.
// Further ones wait. Callers may be concurrent.
type Limit struct {
	Most int // callers with the same key. Do not change it after the first Enter

	mu    sync.Mutex
	lines map[string]*line // by key
}

// A line is the callers with one key.
type line struct {
	running chan struct{} // has an element for each caller that runs
	all     int           // callers that run or wait; guarded by Limit.mu
}

// Enter waits until the caller may run. The caller calls leave when it has run.
// If ctx ends before, Enter returns the cause.
func (l *Limit) Enter(ctx context.Context, key string) (leave func(), err error) {
	own := l.join(key)
	select {
	case own.running <- struct{}{}:
		return func() { <-own.running; l.part(key, own) }, nil
	case <-ctx.Done():
		l.part(key, own)
		return nil, context.Cause(ctx)
	}
}

func (l *Limit) join(key string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.lines[key]
	if own == nil {
		if l.lines == nil {
			l.lines = make(map[string]*line)
		}
		own = &line{running: make(chan struct{}, l.Most)}
		l.lines[key] = own
	}
	own.all++
	return own
}

func (l *Limit) part(key string, own *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.all--; own.all == 0 {
		delete(l.lines, key)
	}
}
