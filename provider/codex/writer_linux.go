package codex

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// writer describes the process that has a conversation open, for an error.
// Codex holds a lock on a file while it writes a conversation, and /proc/locks
// contains the process id of the lock's owner.
func writer(home, thread string) string {
	const unknown = "another Codex on this machine"
	if !token.MatchString(thread) || strings.Contains(thread, "/") {
		return unknown
	}
	st, err := os.Stat(filepath.Join(home, "thread-writer-locks", thread+".lock"))
	if err != nil {
		return unknown
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return unknown
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(locks)) {
		// A line has this form:
		//
		//	1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(sys.Ino, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return unknown + ", process " + f[4]
		}
	}
	return unknown
}
