package runnel

import "sync/atomic"

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
}
