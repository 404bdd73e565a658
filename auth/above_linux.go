package auth

import (
	"os"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// SessionsAbove returns the sessions whose agents started this process, or
// started what did. It returns none where the ancestors cannot be read.
func SessionsAbove() (sessions []string) {
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
