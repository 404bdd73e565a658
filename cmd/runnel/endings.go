package main

import (
	"runtime"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/supervise"
)

// ending describes in one line what may be left running when an agent has ended
// on this system.
func ending() string { return endingOn(runtime.GOOS, supervise.Enabled(), proc.CanFence()) }

func endingOn(goos string, supervised, fenced bool) string {
	switch {
	case supervised && fenced:
		return "supervised: an agent and all it started end together, also if this server or the supervisor is killed, or both are (cgroup)."
	case supervised:
		return "supervised: an agent and all it started end together, also if this server or the supervisor is killed. If both are at once, what cleared its environment may be left (no cgroup of ours here)."
	case goos == "windows" && fenced:
		return "not supervised: an agent and all it started end together, also if this server is killed (job object), but no turn survives that."
	case goos == "linux" || goos == "darwin" || goos == "windows":
		return "not supervised: what an agent started is found in the table of processes; what detached itself may be left, and a killed server leaves its agents."
	}
	return "not supervised: only an agent's own process group is ended, and a killed server leaves its agents."
}
