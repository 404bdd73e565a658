package supervisor

import (
	"bytes"
	"os"
	"strconv"

	"github.com/runnel-dev/runnel/internal/proc"
)

// Supervised reports whether a supervisor is among the ancestors of the process with this number, which is the case
// for all that an agent starts, however it detaches itself. Of one that is gone, or cannot be looked at, it says so too.
//
// What an agent can do is look like one that has a supervisor, never like one that has none: its ancestors are not its
// own to change, nor is what the system shows of them.
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

func isSupervisor(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return os.IsNotExist(err) && pid > 1
	}
	words := bytes.SplitN(line, []byte{0}, 3)
	return len(words) > 1 && string(words[1]) == command
}
