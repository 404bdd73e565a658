package auth

import (
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// AncestorSessions returns the sessions whose agents are ancestors of this
// process. It returns none if the ancestors cannot be read.
func AncestorSessions() (sessions []string) {
	line, err := procinfo.Lineage(os.Getpid())
	if err != nil {
		return nil
	}
	for _, k := range line[1:] {
		if session := procinfo.SessionOf(k.Pid); k.Supervisor && session != "" {
			sessions = append(sessions, session)
		}
	}
	return sessions
}
