package runnel

import "sync/atomic"

// Counters count what agents print and no log records. Sessions that share one
// add to it; it may be read at any time. See [Options].
type Counters struct {
	// Events that were dropped: they came after the end of their turn or a
	// second time, belong to no turn, or were invalid once more than their turn
	// has notices for.
	Events atomic.Int64

	// Messages of the agent that mean nothing to its provider.
	Messages atomic.Int64

	// Lines that are too long or not in the agent's protocol.
	Lines atomic.Int64
}
