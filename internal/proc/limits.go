package proc

import "strconv"

// Limits bound what a child and all its descendants use together. Linux
// enforces them with the fence of the child. A limit of 0 does not exist.
type Limits struct {
	MemoryMiB int     // memory, in MiB; the processes get no swap space
	Processes int     // processes and threads
	CPUs      float64 // CPU time per time: 1.5 is the time of one and a half CPUs
}

func (l Limits) any() bool { return l != Limits{} }

// LimitsError reports why limits cannot be enforced. It is safe to show.
type LimitsError struct {
	Why string
	Fix string // what to do
}

func (e *LimitsError) Error() string { return e.Why + "; " + e.Fix }

// The names of limits in errors: the keys of the configuration.
const (
	memoryLimit    = "limits.memoryMiB"
	processesLimit = "limits.processes"
)

// A Reached tells which limit a child reached before it ended.
type Reached struct {
	Limit string // key of the limit in the configuration; "" if the child reached none
	Text  string // what happened, with the value of the limit
}

// Reached returns the limit that most likely ended a child with this status. No
// limit ended a child whose exit code is 0.
func (l Limits) Reached(st ExitStatus) Reached {
	switch {
	case st.Code == 0:
		return Reached{}
	case l.MemoryMiB > 0 && st.MemoryKills > 0:
		return Reached{memoryLimit, "memory limit of " + strconv.Itoa(l.MemoryMiB) + " MiB (" + memoryLimit + ")"}
	case l.Processes > 0 && st.RefusedForks > 0:
		return Reached{processesLimit, "limit of " + strconv.Itoa(l.Processes) + " processes and threads (" + processesLimit + ")"}
	}
	return Reached{}
}
