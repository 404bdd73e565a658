package agentconn

import (
	"path/filepath"
	"slices"
	"strings"
)

// NamedPaths returns the absolute paths in the variables with these names. A
// variable may have several, as PATH has.
func NamedPaths(env []string, names ...string) (paths []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !slices.Contains(names, name) {
			continue
		}
		for _, path := range filepath.SplitList(value) {
			if filepath.IsAbs(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
