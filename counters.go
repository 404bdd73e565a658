package runnel

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Counters count the output of agents that no log records. Several sessions may
// share one Counters. It may be read at any time. See [Options].
type Counters struct {
	// Events counts dropped events: late events of a turn that has ended,
	// duplicates, events without a turn that need one, and invalid events
	// beyond the number of notices that a turn may have about them.
	Events atomic.Int64

	// Messages counts messages of the agent that its provider does not know.
	Messages atomic.Int64

	// Lines counts lines that are too long or not in the agent's protocol.
	Lines atomic.Int64

	mu      sync.Mutex
	unknown map[string]int64 // see CountUnknown
}

const (
	// maxUnknownTypes bounds how many types are counted separately, because
	// the types come from an agent.
	maxUnknownTypes = 64

	maxTypeBytes = 64
)

// OtherType replaces further types of messages once many types are counted
// separately.
const OtherType = "other"

// CountUnknown counts a message whose type the agent's provider does not know.
// It keeps only letters, digits and the characters "/_-.:$" of the type, at
// most 64 of them, so that the type contains no text of a conversation. It
// returns the type under which it counted the message.
func (c *Counters) CountUnknown(typ string) string {
	typ = strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_-.:$", r)) {
			return r
		}
		return -1
	}, typ[:min(len(typ), 4*maxTypeBytes)])
	typ = typ[:min(len(typ), maxTypeBytes)]
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.unknown[typ]; typ == "" || !known && len(c.unknown) >= maxUnknownTypes {
		typ = OtherType
	}
	if c.unknown == nil {
		c.unknown = make(map[string]int64)
	}
	c.unknown[typ]++
	return typ
}

// Unknown returns how often each type of message occurred that the agent's
// provider does not know. Messages counts these messages too.
func (c *Counters) Unknown() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.unknown)
}
