package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// A file system may know one file by several names, such as in upper and lower
// case. EvalSymlinks keeps the name that was written, so paths on such a file system
// are compared by their files, too.

// otherwise returns a path that g protects, or one of obeyed, if dir contains it or is
// part of it under another name of the same file. It returns "" if there is none. It
// compares files, whereas exposesAs, obeyedIn and hidden compare paths.
func (g guard) otherwise(dir string, obeyed []string) string {
	files := make(stats)
	self := files.of(dir)
	if self == nil {
		return ""
	}
	around := files.way(dir)
	isIn := func(root string) bool { // dir is root or is in it
		want := files.of(root)
		return want != nil && slices.ContainsFunc(around, func(at string) bool { return os.SameFile(files.of(at), want) })
	}
	contains := func(path string) bool { // path is dir or is in it
		return slices.ContainsFunc(files.way(path), func(at string) bool { return os.SameFile(files.of(at), self) })
	}
	for _, home := range g.homes {
		if contains(home) {
			return home
		}
		want := files.of(home)
		for _, at := range around {
			if up := files.of(filepath.Dir(at)); want != nil && up != nil && filepath.Dir(at) != home && os.SameFile(up, want) && isHidden(filepath.Base(at)) {
				return filepath.Join(home, filepath.Base(at))
			}
		}
	}
	for _, p := range slices.Concat(g.paths, obeyed) {
		isHome := slices.ContainsFunc(g.homes, func(home string) bool { return within(home, p) })
		if contains(p) || isIn(p) && !isHome {
			return p
		}
	}
	for _, p := range g.agent {
		if isIn(p) {
			return p
		}
	}
	return ""
}

// stats are what is known of paths: nil for one that does not exist.
type stats map[string]fs.FileInfo

// of returns the file at path, without following a link; nil if there is none.
func (s stats) of(path string) fs.FileInfo {
	info, known := s[path]
	if !known {
		if found, err := os.Lstat(path); err == nil {
			info = found
		}
		s[path] = info
	}
	return info
}

// way returns path and the directories above it, as far as they exist.
func (s stats) way(path string) (out []string) {
	for {
		if s.of(path) != nil {
			out = append(out, path)
		}
		up := filepath.Dir(path)
		if up == path {
			return out
		}
		path = up
	}
}

// spelled fails if the agent could reach a path in a writable directory by its name in
// another case. The kernel would not show the mount there, but the file itself:
// many file systems that ignore case do so without the kernel's knowledge, such as
// those of Windows in WSL, of macOS in a container, and of servers.
func (m *mounts) spelled() error {
	for _, e := range m.list {
		if e.kind == link || m.over(filepath.Dir(e.path)).kind != writable {
			continue
		}
		if other, same := subpath.InOtherCase(e.path); same {
			return &Error{
				Why: e.path + " is also " + filepath.Base(other) + ", so a sandbox cannot protect it: this file system ignores the case of names, or there are two names",
				Fix: "Move the folder to a file system that distinguishes upper and lower case, or remove the second name.",
			}
		}
	}
	return nil
}
