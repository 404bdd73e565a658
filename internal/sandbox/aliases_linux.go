package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mounted is one line of the kernel's table of mounts: a directory of a file
// system, and the path at which it is.
type mounted struct{ device, root, path string }

// mountTable returns the mounts of this process. It touches none of them.
func mountTable() (table []mounted, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			table = append(table, mounted{f[2], escapes.Replace(f[3]), escapes.Replace(f[4])})
		}
	}
	return table, nil
}

// aliases returns the other paths under which a canonical directory, a part of
// it or a directory around it can be reached, because a file system is mounted
// more than once, or a directory of it is mounted elsewhere (a bind mount).
func aliases(table []mounted, dir string) (paths []string) {
	var holder mounted
	for _, m := range table { // of several mounts at one path, the last hides the others
		if within(dir, m.path) && len(m.path) >= len(holder.path) {
			holder = m
		}
	}
	parts := []mounted{{holder.device, filepath.Join(holder.root, strings.TrimPrefix(dir, holder.path)), dir}}
	for _, m := range table {
		if m.path != dir && within(m.path, dir) {
			parts = append(parts, m)
		}
	}
	for _, part := range parts {
		for _, m := range table {
			if m.device != part.device {
				continue
			}
			path := m.path
			switch {
			case within(part.root, m.root):
				path = filepath.Join(m.path, strings.TrimPrefix(part.root, m.root))
			case !within(m.root, part.root):
				continue
			}
			if !within(path, dir) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
