// Package procinfo reads what the system shows of processes, and names the
// marks by which agents and supervisors are recognised.
//
// The packages that set the marks (proc, supervisor) and the package that looks
// for them (auth) share these names. With a name of its own, auth would take an
// agent for the user as soon as the other side is renamed.
package procinfo

import "bytes"

const (
	// MarkSuffix ends the name of the environment variable that every agent, and
	// whatever it starts, inherits. Each provider puts a prefix of its own before
	// it. The variable's value is random and different for each agent.
	MarkSuffix = "RUNNEL_MARK"

	// SuperviseCommand follows the program's name in the command line of a
	// supervisor. The name of the agent's session comes after it.
	SuperviseCommand = "__supervise"
)

// IsMark reports whether an environment entry NAME=value is the mark of an
// agent.
func IsMark(entry []byte) bool {
	name, _, ok := bytes.Cut(entry, []byte{'='})
	return ok && bytes.HasSuffix(name, []byte(MarkSuffix))
}

// SupervisedSession returns the session that a supervisor with this command
// line runs. It reports false if args, which begin with the program's name, are
// not those of a supervisor.
func SupervisedSession(args []string) (session string, ok bool) {
	if len(args) < 2 || args[1] != SuperviseCommand {
		return "", false
	}
	if len(args) > 2 {
		session = args[2]
	}
	return session, true
}
