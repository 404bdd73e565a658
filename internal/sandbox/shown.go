package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Shown is what every sandbox shows apart from its directories and the agent's
// files: the programs and settings of the system, and those that version managers
// install in home directories.
type Shown struct {
	g    guard
	dirs []string
	etc  string
}

// NewShown returns what the sandboxes of this process show. It returns nil, which
// contains nothing, if the user has no home directory.
func NewShown() *Shown {
	g, err := Box{}.guard()
	if err != nil {
		return nil
	}
	return &Shown{g, g.shown(), real("/etc")}
}

// Contains reports whether every sandbox shows the file at a canonical path.
func (s *Shown) Contains(path string) bool {
	if s == nil || !slices.ContainsFunc(s.dirs, func(dir string) bool { return within(path, dir) }) || s.g.reveals(path) != "" {
		return false
	}
	for p := path; p != s.etc && within(p, s.etc); p = filepath.Dir(p) {
		if info, err := os.Lstat(p); err != nil || isPrivate(info) {
			return false
		}
	}
	return true
}

// shown returns the canonical directories that every sandbox shows.
func (g guard) shown() (dirs []string) {
	for _, dir := range readableSystem {
		dirs = append(dirs, real(dir))
	}
	for _, home := range g.homes {
		for _, dir := range toolchains {
			dirs = append(dirs, real(filepath.Join(home, dir)))
		}
	}
	return dirs
}

// isPrivate reports whether other users may not read a file, or list and enter a
// directory.
func isPrivate(info fs.FileInfo) bool {
	const readDir, readFile = 0o005, 0o004
	if info.IsDir() {
		return info.Mode().Perm()&readDir != readDir
	}
	return info.Mode().Perm()&readFile == 0
}
