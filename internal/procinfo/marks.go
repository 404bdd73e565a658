// Package procinfo reads information about processes from the system, and
// defines the marks of agents and supervisors.
//
// Packages proc and supervisor set the marks, and package auth looks for them.
// They share these names, so that a rename cannot make auth mistake an agent
// for the user.
package procinfo

import "bytes"

const (
	// MarkSuffix is the suffix of the environment variable that every agent and
	// its descendants inherit. Each provider adds its own prefix. The value is
	// random and differs for each agent.
	MarkSuffix = "RUNNEL_MARK"

	// SuperviseCommand follows the program name in the command line of a
	// supervisor. The name of the agent's session follows it.
	SuperviseCommand = "__supervise"
)

// IsMark reports whether an environment entry NAME=value is the mark of an
// agent.
func IsMark(entry []byte) bool {
	name, _, ok := bytes.Cut(entry, []byte{'='})
	return ok && bytes.HasSuffix(name, []byte(MarkSuffix))
}

// SupervisedSession returns the session of a supervisor with this command line.
// args begins with the program name. ok is false if args is not the command
// line of a supervisor.
func SupervisedSession(args []string) (session string, ok bool) {
	if len(args) < 2 || args[1] != SuperviseCommand {
		return "", false
	}
	if len(args) > 2 {
		session = args[2]
	}
	return session, true
}
