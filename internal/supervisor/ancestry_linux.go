package supervisor

import (
	"os"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// Supervised reports whether a supervisor is among the ancestors of the process
// with this number. That is so for everything that an agent starts, however it
// detaches itself. Supervised returns true, too, if the process is gone or its
// ancestors cannot be read.
//
// An agent can pretend to have a supervisor, but cannot hide the one it has: a
// process can change neither its ancestors nor what the system shows of them.
func Supervised(pid int) bool {
	for pid > 1 {
		parent, ok := proc.Parent(pid)
		if !ok {
			return true
		}
		if pid = parent; isSupervisor(pid) {
			return true
		}
	}
	return false
}

// isSupervisor reports whether a process is a supervisor, or is gone.
func isSupervisor(pid int) bool {
	is, err := procinfo.IsSupervisor(pid)
	return is || os.IsNotExist(err) && pid > 1
}
