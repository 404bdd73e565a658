package main

import (
	"runtime"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/supervise"
)

// cleanupGuarantee describes in one line what may be left running when an agent
// has ended on this system.
func cleanupGuarantee() string {
	return cleanupGuaranteeOn(runtime.GOOS, supervise.Enabled(), proc.CanFence())
}

func cleanupGuaranteeOn(goos string, supervised, fenced bool) string {
	switch {
	case supervised && fenced:
		return "supervised: an agent and every process that it started end together, even if the server, the supervisor or both are killed (cgroup)."
	case supervised:
		return "supervised: an agent and every process that it started end together, even if the server or the supervisor is killed. If both are killed at once, a process that cleared its environment may be left, because runnel has no cgroup here."
	case goos == "windows" && fenced:
		return "not supervised: an agent and every process that it started end together, even if the server is killed (job object), but no turn survives a killed server."
	case goos == "linux" || goos == "darwin" || goos == "windows":
		return "not supervised: runnel finds what an agent started in the process table. A process that detached itself may be left, and a killed server leaves its agents running."
	}
	return "not supervised: runnel stops only the agent's own process group, and a killed server leaves its agents running."
}
