package changes

import (
	"os"
	"path/filepath"
)

// replacedFolder looks for a parent folder of a file in dir that is no folder any
// more, because a file or a link has replaced it. For git, nothing exists below
// it. replacedFolder returns the path of that folder, or "" if there is none.
func replacedFolder(dir, path string) string {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		st, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(path[:i])))
		switch {
		case err != nil:
			return ""
		case !st.IsDir():
			return path[:i]
		}
	}
	return ""
}

// withoutReplaced leaves out the paths of files whose parent folder, now a link or
// a file, is also among paths. git update-index fails for a path below a link.
// When it adds the link or the file itself, it removes the paths below from the
// index anyway.
func withoutReplaced(dir string, paths []string) (out []string) {
	among := make(map[string]bool, len(paths))
	for _, p := range paths {
		among[p] = true
	}
	for _, p := range paths {
		if !among[replacedFolder(dir, p)] {
			out = append(out, p)
		}
	}
	return out
}
