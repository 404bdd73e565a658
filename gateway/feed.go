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
	changes []change         // by version; of a session all but the newest are void
	grown   chan struct{}    // closed and replaced with each change
}

type change struct {
	version int64
	id      string
}

func (f *feed) init() {
	f.at, f.grown = make(map[string]int64), make(chan struct{})
}

func (f *feed) touch(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.at[id] = f.version
	f.changes = append(f.changes, change{f.version, id})
	if len(f.changes) > 2*len(f.at)+64 {
		f.changes = slices.DeleteFunc(f.changes, func(c change) bool { return f.at[c.id] != c.version })
	}
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
	from, _ := slices.BinarySearchFunc(g.feed.changes, version+1, func(c change, v int64) int { return cmp.Compare(c.version, v) })
	for _, c := range g.feed.changes[from:] {
		if g.feed.at[c.id] == c.version {
			ids = append(ids, c.id)
		}
	}
	return ids, g.feed.version
}
