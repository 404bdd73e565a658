package auth

import (
	"os"
	"slices"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// A process belongs to an agent of this server, or of an earlier server
// process, if a supervisor or this server is among its ancestors. A supervisor
// adopts all of its descendants that lose their parent, and keeps running if
// the server is killed. A process can pretend to belong to an agent, but an
// agent's process cannot hide that it does, because it cannot change its
// ancestors or their /proc entries.

// fromAgent reports whether the process with this pid belongs to an agent. It
// also returns true if that cannot be determined. The pid may be reused during
// the call; the caller must check that with a handle.
func fromAgent(pid int) bool {
	self, err := procinfo.Lineage(os.Getpid())
	return err != nil || fromAgentOf(self, pid)
}

// fromAgentOf is fromAgent for a server with the lineage self. It ignores
// ancestors that pid and the server have in common, because an agent of another
// server may have started this server.
func fromAgentOf(self []procinfo.Process, pid int) bool {
	if marked(pid, self[0].Pid) {
		return true
	}
	line, err := procinfo.Lineage(pid)
	return err != nil || hasAgent(self, line)
}

// hasAgent reports whether a process in line belongs to an agent.
func hasAgent(self, line []procinfo.Process) bool {
	for _, k := range line {
		switch {
		case k.Pid == self[0].Pid, k.Supervisor:
			return true
		case slices.ContainsFunc(self, func(above procinfo.Process) bool { return above.Pid == k.Pid }):
			return false
		}
	}
	return false
}

// marked reports whether the initial environment of pid has an agent's mark
// that self does not have. A process can hide its environment or drop the mark,
// but its ancestors still identify it.
func marked(pid, self int) bool {
	theirs := procinfo.Marks(pid)
	if len(theirs) == 0 {
		return false
	}
	ours := procinfo.Marks(self)
	return slices.ContainsFunc(theirs, func(m string) bool { return !slices.Contains(ours, m) })
}
