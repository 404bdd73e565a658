package conversations

import "slices"

// A Changed is a conversation that changed, appeared or disappeared.
type Changed struct {
	Key
	ProjectDir string
}

// changes remembers the newest changes of the index. Index.mu guards it.
type changes struct {
	version int64 // number of all changes
	newest  []Changed
	grown   chan struct{} // closed and replaced with each change
}

// maxChanges is how many changes are remembered at least.
const maxChanges = 1000

func (c *changes) add(of Conversation) {
	c.version++
	c.newest = append(c.newest, Changed{Key{of.CLIType, of.AgentSessionID}, of.ProjectDir})
	if len(c.newest) > 2*maxChanges {
		c.newest = slices.Clone(c.newest[len(c.newest)-maxChanges:])
	}
	close(c.grown)
	c.grown = make(chan struct{})
}

// Grown returns a channel that is closed once a conversation has changed after
// version.
func (x *Index) Grown(version int64) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changes.version > version {
		c := make(chan struct{})
		close(c)
		return c
	}
	return x.changes.grown
}

// Changes returns the changes after version, oldest first, and the version for
// the next call. all is set if some of them are no longer known, so that any
// conversation may have changed. A negative version returns no changes.
func (x *Index) Changes(version int64) (list []Changed, all bool, now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.changes
	n := int(c.version - version)
	switch {
	case version < 0:
		return nil, false, c.version
	case n > len(c.newest):
		return nil, true, c.version
	}
	return slices.Clone(c.newest[len(c.newest)-n:]), false, c.version
}
