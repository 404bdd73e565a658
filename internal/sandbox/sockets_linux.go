package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// hideSockets hides the sockets that lie where the sandbox can only read, such
// as those of services beside their programs. A mount that is read-only does not
// prevent a connection.
func (m *mounts) hideSockets() {
	for _, path := range boundSockets() {
		if path = real(path); m.over(path).kind != readable {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
			m.hide(path, false)
		}
	}
}

// boundSockets returns the absolute paths to which sockets of this machine were
// bound. Some may no longer exist.
func boundSockets() (paths []string) {
	table, _ := os.ReadFile("/proc/net/unix") // without it, only the known sockets are hidden
	for line := range strings.Lines(string(table)) {
		const fields = 7 // in front of the path
		for range fields {
			_, rest, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
			line = rest
		}
		if path := strings.TrimSuffix(line, "\n"); filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}
