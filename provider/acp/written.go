package acp

import (
	"sync"
	"time"
)

// An ownWrites records when processes that Runnel started last wrote their
// conversations: an agent may write its conversation until it exits.
type ownWrites struct {
	mu sync.Mutex
	at map[string]time.Time // by conversation
}

const (
	maxOwnWrites = 1000
	// ownSlack is how much later than the exit of an agent the time of its last
	// write may be, since file systems round times.
	ownSlack = time.Second
)

func (o *ownWrites) add(conversation string, at time.Time) {
	if o == nil || conversation == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.at) >= maxOwnWrites || o.at == nil { // times of a moment ago are enough
		o.at = make(map[string]time.Time)
	}
	o.at[conversation] = at
}

// others returns the time of the last write of a conversation; zero if it was
// one of ours.
func (o *ownWrites) others(conversation string, at time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ours, ok := o.at[conversation]; ok && !at.After(ours.Add(ownSlack)) {
		return time.Time{}
	}
	return at
}
