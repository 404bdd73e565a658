package codex

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// writer names who has a conversation open: codex locks a file of its while it
// writes to it, and the system knows the process.
func writer(home, thread string) string {
	const somebody = "another Codex on this machine"
	if !token.MatchString(thread) || strings.Contains(thread, "/") {
		return somebody
	}
	st, err := os.Stat(filepath.Join(home, "thread-writer-locks", thread+".lock"))
	if err != nil {
		return somebody
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return somebody
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return somebody
	}
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(sys.Ino, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return somebody + ", process " + f[4]
		}
	}
	return somebody
}
