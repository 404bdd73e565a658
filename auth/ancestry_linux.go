package auth

import (
	"os"
	"slices"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// A process belongs to an agent of this server, or of a server before it, if a
// supervisor or this server is among its ancestors: a supervisor adopts
// whatever loses its parent below it, and outlives a killed server. An agent
// can pretend to be ours, but cannot pretend to be a stranger: a process can
// change neither its ancestors nor what the system shows of them.

// fromAgent reports whether the process with this pid belongs to an agent, or
// whether that cannot be determined. The pid may name another process by the
// time it returns; the caller checks that with a handle.
func fromAgent(pid int) bool {
	self, err := procinfo.Lineage(os.Getpid())
	return err != nil || fromAgentOf(self, pid)
}

// fromAgentOf is fromAgent with the lineage of this server. Ancestors that pid
// and this server have in common say nothing: this server may itself have been
// started by an agent of another one.
func fromAgentOf(self []procinfo.Kin, pid int) bool {
	if marked(pid, self[0].Pid) {
		return true
	}
	line, err := procinfo.Lineage(pid)
	return err != nil || hasAgent(self, line)
}

// hasAgent reports whether a process of a lineage belongs to an agent.
func hasAgent(self, line []procinfo.Kin) bool {
	for _, k := range line {
		switch {
		case k.Pid == self[0].Pid, k.Supervisor:
			return true
		case slices.ContainsFunc(self, func(above procinfo.Kin) bool { return above.Pid == k.Pid }):
			return false
		}
	}
	return false
}

// marked reports whether the environment that pid began with has the mark of an
// agent that self does not have. A process that hides its environment, or has
// dropped the mark, is recognised by its ancestors.
func marked(pid, self int) bool {
	theirs := procinfo.Marks(pid)
	if len(theirs) == 0 {
		return false
	}
	ours := procinfo.Marks(self)
	return slices.ContainsFunc(theirs, func(m string) bool { return !slices.Contains(ours, m) })
}
