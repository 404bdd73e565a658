package sandbox

import (
	"path/filepath"
	"slices"
)

// readableSystem are directories of the system that every sandbox shows. The
// rest of /nix has the sockets of the daemons of Nix, which run programs outside
// of the sandbox, for some users as root.
var readableSystem = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/nix/var/nix/profiles", "/etc"}

// A Suggester finds allowances for paths that a sandbox denied. It is for one
// goroutine and for a short time: the file system may change.
type Suggester struct {
	g    guard
	dirs []string // that the sandbox has, writable
	read []string // that it has, readable
}

// NewSuggester returns a Suggester for a sandbox with these directories, which
// are writable in it. protected are as in Box.Protected. It returns nil, which
// suggests nothing, if the user has no home directory.
func NewSuggester(dirs, protected []string) *Suggester {
	g, err := Box{Protected: protected}.guard()
	if err != nil {
		return nil
	}
	s := &Suggester{g: g.widened(), read: g.shown()}
	for _, dir := range dirs {
		s.dirs = append(s.dirs, real(dir))
	}
	return s
}

// Suggest returns the allowance that would let the sandbox reach a path which a
// program in it could not reach. ok is false if the allowance would be refused,
// would change nothing, or if the path does not exist; if it is missing and
// Write is set, the allowance is for its directory.
//
// The path comes from the output of a hostile program. So Suggest reads the
// disk only below directories that are not protected, and only on local file
// systems: a look-up in a directory of an automounter would send the name to a
// host of the program's choice.
func (s *Suggester) Suggest(a Allowance) (found Allowance, ok bool) {
	a.Path = filepath.Clean(a.Path)
	if s == nil || !filepath.IsAbs(a.Path) || s.g.check(Allowance{Path: a.Path}) != nil {
		return a, false
	}
	path, plain, exists := locate(a.Path)
	if dir := filepath.Dir(a.Path); !exists && a.Write && s.g.check(Allowance{Path: dir}) == nil {
		path, plain, exists = locate(dir)
	}
	if !exists || !plain {
		return a, false
	}
	a.Path = path
	return a, !s.has(a) && s.g.check(a) == nil
}

// has reports whether the sandbox has the path already.
func (s *Suggester) has(a Allowance) bool {
	in := func(dir string) bool { return within(a.Path, dir) }
	return slices.ContainsFunc(s.dirs, in) || !a.Write && slices.ContainsFunc(s.read, in)
}
