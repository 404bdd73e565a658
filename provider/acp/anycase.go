package acp

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"
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
			if hasOtherCase(at, path) {
				return true
			}
		}
	}
	return false
}

// hasOtherCase reports whether name, in dir, is also the name in the other case.
func hasOtherCase(dir, name string) bool {
	other := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
	is, err := os.Lstat(filepath.Join(dir, name))
	also, err2 := os.Lstat(filepath.Join(dir, other))
	return other != name && err == nil && err2 == nil && os.SameFile(is, also)
}
