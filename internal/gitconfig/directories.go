package gitconfig

import (
	"context"
	"os"
	"path/filepath"
)

// Directories returns the git directories that git may use in dir: those of the
// repositories in dir and in the folders above it, these folders themselves if they
// are bare repositories, and what they share with other worktrees. It leaves out the user's home directory and the folders above it. If
// a link leads to dir, it returns those of both paths.
func Directories(dir string) (out []string) {
	out = directories(dir)
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != filepath.Clean(dir) {
		out = append(out, directories(real)...)
	}
	return out
}

func directories(dir string) (out []string) {
	home, _ := os.UserHomeDir() // without a home directory, every folder above counts
	real, err := filepath.EvalSymlinks(home)
	if err != nil {
		real = home
	}
	f := newFinder(context.Background(), nil, 0)
	for dir = filepath.Clean(dir); dir != home && dir != real; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		if st, err := os.Stat(at); err == nil && !st.IsDir() {
			at = f.readPath(at, "gitdir: ")
		} else if err != nil {
			at = ""
		}
		if at != "" {
			out = append(out, at)
			if common := f.readPath(filepath.Join(at, "commondir"), ""); common != "" {
				out = append(out, common)
			}
		}
		if isGitDir(dir) {
			out = append(out, dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return out
}
