// Package supervise gives every agent a supervisor of its own: one line at the
// top of main.
//
//	func main() {
//		supervise.Main()
//		// …
//	}
//
// A supervisor is your program, executed again, about 3 MiB each. It ends an
// agent and everything the agent started, also what detached itself, when your
// program ends, also by SIGKILL. On systems other than Linux it does nothing,
// and what an agent leaves behind is found as well as the system's process
// table allows.
package supervise

import "github.com/runnel-dev/runnel/internal/supervisor"

// Main must be the first thing that main does. In a process that was started as
// a supervisor it does not return.
func Main() { supervisor.Main() }

// Enabled reports whether agents get supervisors: Main was called, on a system
// where there are some.
func Enabled() bool { return supervisor.Enabled() }
