// Package supervise gives every agent a supervisor of its own. A program needs
// one line at the top of main:
//
//	func main() {
//		supervise.Main()
//		// …
//	}
//
// A supervisor is a second process of your program, which needs about 3 MiB.
// When your program ends, even by SIGKILL, the supervisor ends the agent and
// everything that the agent started, including processes that have detached
// themselves.
//
// An agent's output passes through its supervisor, unless other processes
// cannot open the descriptors of your program. Such a program, one that has set
// PR_SET_DUMPABLE to 0, reads the output itself, which takes fewer context
// switches.
//
// Supervisors run on Linux only. On other systems Main does nothing, and the
// processes that an agent leaves behind are found only as far as the process
// table of the system shows them.
package supervise

import "github.com/runnel-dev/runnel/internal/supervisor"

// Main must be the first thing that main does. In a process that was started as
// a supervisor it does not return. On Linux it marks every descriptor that the
// program inherited, except standard input, output and error, as one that other
// programs do not inherit (FD_CLOEXEC).
func Main() { supervisor.Main() }

// Enabled reports whether agents get supervisors: whether Main was called on a
// system that supports them.
func Enabled() bool { return supervisor.Enabled() }
