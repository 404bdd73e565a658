package gateway

import (
	"cmp"
	"slices"
	"sync"
)

// A feed gives each change of a session a version number, so that a watcher of
// the session list can ask for the changes after the last version it saw. A
// slow watcher misses intermediate states of a session, but no session that
// changed.
type feed struct {
	mu      sync.Mutex
	version int64
	at      map[string]int64 // version of each session's newest change
	changes []change         // by version; only the newest of each session counts
	grown   chan struct{}    // closed and replaced with each change
}

type change struct {
	version int64
	id      string
}

func newFeed() *feed {
	return &feed{at: make(map[string]int64), grown: make(chan struct{})}
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

// changed implements [Gateway.Changed].
func (f *feed) changed(version int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version > version {
		c := make(chan struct{})
		close(c)
		return c
	}
	return f.grown
}

// changesAfter implements [Gateway.Changes].
func (f *feed) changesAfter(version int64) (ids []string, now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if version < 0 {
		return nil, f.version
	}
	from, _ := slices.BinarySearchFunc(f.changes, version+1, func(c change, v int64) int { return cmp.Compare(c.version, v) })
	for _, c := range f.changes[from:] {
		if f.at[c.id] == c.version {
			ids = append(ids, c.id)
		}
	}
	return ids, f.version
}

// Changed returns a channel that is closed once a session has changed after
// version.
func (g *Gateway) Changed(version int64) <-chan struct{} { return g.feed.changed(version) }

// Changes returns the ids of the sessions that changed after version, oldest
// change first, and the current version for the next call. A watcher starts
// with a negative version, which returns no ids.
func (g *Gateway) Changes(version int64) (ids []string, now int64) {
	return g.feed.changesAfter(version)
}
