package auth

import (
	"errors"
	"os"
	"slices"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// A process belongs to an agent of this server, or of a server before it, if a
// supervisor or this server is among its ancestors: a supervisor adopts whatever
// loses its parent below it, and outlives a killed server. An agent can pretend
// to be ours, but cannot pretend to be a stranger: a process can change neither
// its ancestors nor what the system shows of them.

// maxGenerations bounds the walk to the root, in case a pid was reused on the
// way.
const maxGenerations = 1024

var errUnclear = errors.New("auth: the ancestors of a process cannot be read")

// fromAgent reports whether pid belongs to an agent, or whether that cannot be
// determined. Ancestors that pid and this server have in common say nothing:
// this server may itself have been started by an agent of another one.
func fromAgent(pid int) bool {
	self := os.Getpid()
	above, err := ancestors(self)
	if err != nil || marked(pid, self) {
		return true
	}
	child := uint64(1<<64 - 1) // when the child of pid started
	for range maxGenerations {
		// The command line of a process that is gone cannot be read; nor can its
		// stat, which decides.
		supervisor, _ := procinfo.IsSupervisor(pid)
		switch {
		case pid == self, supervisor:
			return true
		case pid <= 1, slices.Contains(above, pid):
			return false
		}
		st, err := procinfo.ReadStat(pid)
		if err != nil || st.Start > child { // gone, or its pid was reused
			return true
		}
		pid, child = st.Parent, st.Start
	}
	return true
}

// ancestors returns the pids above pid, nearest first.
func ancestors(pid int) ([]int, error) {
	var list []int
	for range maxGenerations {
		if pid <= 1 {
			return list, nil
		}
		st, err := procinfo.ReadStat(pid)
		if err != nil {
			return nil, err
		}
		pid = st.Parent
		list = append(list, pid)
	}
	return nil, errUnclear
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
