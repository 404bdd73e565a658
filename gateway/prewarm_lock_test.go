package gateway

import (
	"testing"
	"time"
)

// A prompt does not wait for the directories of agents that wait: one of them
// may be on a file system that hangs while mu is held.
func TestAPromptWaitsForNoDirectory(t *testing.T) {
	p := newPool(t.Context(), 1, 0, nil, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	used := make(chan struct{})
	go func() {
		defer close(used)
		p.use()
	}()
	select {
	case <-used:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}
