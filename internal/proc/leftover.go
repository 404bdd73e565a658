package proc

import (
	"errors"
	"strings"
)

// Leftovers are the processes that outlived their supervisor or that it could
// not end.
type Leftovers struct {
	Mark string // mark of the agent, as NAME=value; see Command.Mark

	Fence string // fence of the agent; see Process.Fence. Default: it had none

	// Under is the supervisor, if it still runs. Its descendants count as
	// leftovers; the supervisor itself does not. Default: it has ended.
	Under Identity

	// Orphans is true if this process is the subreaper that adopted the
	// leftovers. Every child that this process did not start itself then
	// counts, with all its descendants.
	Orphans bool
}

// markLength is the length of a mark's value, which crypto/rand generates.
const markLength = 26

// End kills the leftovers and returns the number of processes that remain. It
// rejects a malformed mark, since a common variable would match unrelated
// processes.
func (l Leftovers) End() (left int, err error) {
	fenceClear := l.Fence == "" || endFence(l.Fence)
	_, value, ok := strings.Cut(l.Mark, "=")
	if !ok || !isMark(value) {
		return 0, errors.New("not a mark")
	}
	const nobody = -1
	t := newTree(nobody, l.Mark, nil, false)
	if now, ok := Identify(l.Under.Pid); ok && now == l.Under {
		t = newTree(l.Under.Pid, l.Mark, nil, false)
	}
	t.orphans = l.Orphans
	left = t.sweep()
	if left == 0 && !fenceClear {
		left = 1
	}
	return left, nil
}

// isMark reports whether s has the form of a generated mark.
func isMark(s string) bool {
	return len(s) == markLength && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Identity identifies a process permanently, although the system reuses process
// ids. It holds the id and the start time in the system's own unit.
type Identity struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the identity of the process that has this id now. It returns
// false if no living process has it.
func Identify(pid int) (Identity, bool) {
	e, ok := process(pid)
	if !ok || e.dead {
		return Identity{}, false
	}
	return Identity{Pid: e.pid, Start: e.start}, true
}
