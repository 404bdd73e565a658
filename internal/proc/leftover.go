package proc

import (
	"errors"
	"strings"
)

// Leftovers are the processes that a supervisor left behind when it ended
// before them.
type Leftovers struct {
	Mark string // of the agent it ran, as NAME=value; see Command.Mark

	Fence string // of that agent; see Process.Fence. Default: it had none

	// Under is the supervisor, if it lives: what is below it counts, and it does
	// not. Default: it is gone.
	Under Identity

	// Orphans says that this process is the subreaper that they fell to: every
	// child that it did not start itself, and all that those started, counts.
	Orphans bool
}

// markLength is that of a mark's value, which crypto/rand made.
const markLength = 26

// End ends them and returns how many are left even so. It refuses a mark that
// is not one: a variable that others have, too, would end them.
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

// isMark reports whether crypto/rand may have made this text.
func isMark(s string) bool {
	return len(s) == markLength && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Identity is a process for ever, where its number alone is used again: the
// number and when it started, in the system's own unit.
type Identity struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Identify returns the identity of the process that has this number now. It
// reports false if none has, or only a dead one.
func Identify(pid int) (Identity, bool) {
	e, ok := process(pid)
	if !ok || e.dead {
		return Identity{}, false
	}
	return Identity{Pid: e.pid, Start: e.start}, true
}
