package acp

import (
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// maxSpelled bounds the names in a folder that ignoresCase tries.
const maxSpelled = 20

// ignoresCase reports whether the file system of a folder, or of the repository
// around it, ignores the case of names, as those of Windows do in WSL. It tries the
// names there, so it knows nothing of an empty folder.
func ignoresCase(dir string) bool {
	if dir == "" {
		dir, _ = os.Getwd() // the agent works there
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for _, at := range []string{dir, outermost(dir, userHome())} {
		d, err := os.Open(at)
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(maxSpelled)
		d.Close()
		for _, path := range append(names, ".git", filepath.Join("..", filepath.Base(at))) {
			if _, same := subpath.InOtherCase(filepath.Join(at, path)); same {
				return true
			}
		}
	}
	return false
}
