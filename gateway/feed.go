package gateway

import (
	"cmp"
	"slices"
	"sync"
)

// A feed numbers the changes of sessions, so that each watcher of the list asks
// for what changed since it last looked. A slow watcher misses no session, only
// states in between.
type feed struct {
	mu      sync.Mutex
	version int64
	at      map[string]int64 // version of each session's newest change
	grown   chan struct{}    // closed and replaced with each change
}

func (f *feed) init() {
	f.at, f.grown = make(map[string]int64), make(chan struct{})
}

func (f *feed) touch(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.at[id] = f.version
	close(f.grown)
	f.grown = make(chan struct{})
}

// Changed returns a channel that is closed once there are changes after version.
func (g *Gateway) Changed(version int64) <-chan struct{} {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	if g.feed.version > version {
		c := make(chan struct{})
		close(c)
		return c
	}
	return g.feed.grown
}

// Changes returns the ids of the sessions that changed after version, oldest
// change first, and the version that a watcher has then seen. A negative
// version returns none, to begin with.
func (g *Gateway) Changes(version int64) (ids []string, now int64) {
	g.feed.mu.Lock()
	defer g.feed.mu.Unlock()
	if version < 0 {
		return nil, g.feed.version
	}
	for id, at := range g.feed.at {
		if at > version {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(g.feed.at[a], g.feed.at[b]) })
	return ids, g.feed.version
}
