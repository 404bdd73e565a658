package changes

import (
	"os"
	"path/filepath"
)

// replacedFolder returns the path of a folder on the way to a file of dir that
// something else, such as a file or a link, has replaced. For git, nothing
// exists below it. It returns "" if there is none.
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

// withoutReplaced returns the paths of files in dir that git update-index takes.
// It rejects a file below a link, but removes all files below a path that it
// adds to the index.
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
