package runnel

import "cmp"

// Limits bound what an agent and all processes that it starts use together. A
// limit of 0 does not exist. The agent of a session does not start if its
// limits cannot be enforced.
type Limits struct {
	MemoryMiB int     // memory, in MiB; the processes get no swap space
	Processes int     // processes and threads
	CPUs      float64 // CPU time per time: 1.5 is the time of one and a half CPUs
}

// With returns the limits with those of other in place of the limits that do not
// exist.
func (l Limits) With(other Limits) Limits {
	return Limits{cmp.Or(l.MemoryMiB, other.MemoryMiB), cmp.Or(l.Processes, other.Processes), cmp.Or(l.CPUs, other.CPUs)}
}

// A Limiter is a Provider that can limit the agents of sessions. WithLimits
// returns the provider with limits for each agent that it starts for a session.
// A process that only describes the agent may have none. Only the configuration
// of the server may set limits.
type Limiter interface {
	WithLimits(l Limits) Provider
}
