package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// check returns what the sandbox must not contain, and the canonical paths of
// the session's directories. It fails if one of them exposes a protected path, or
// has what Runnel runs or obeys.
func (b Box) check() (g guard, dirs []string, err error) {
	if g, err = b.guard(); err != nil {
		return g, nil, err
	}
	for _, dir := range append([]string{b.Dir}, b.Dirs...) {
		found := real(dir)
		if b.InPlace && found != filepath.Clean(dir) {
			return g, nil, &Error{Why: dir + ", or a directory above it, was replaced by a link to another place", Fix: "Restore the directory."}
		}
		dirs = append(dirs, found)
	}
	obeyed := b.obeyed(g)
	for _, dir := range dirs {
		if p := g.exposes(dir); p != "" {
			return g, nil, &ExposedError{Dir: dir, Protected: p}
		}
		if p := gitDirAbove(dir); p != "" {
			return g, nil, &ExposedError{Dir: dir, Protected: p, Obeyed: true}
		}
		for _, name := range g.names(dir) {
			g := g.withHomeOf(name)
			if p := g.exposesAs(name); p != "" {
				return g, nil, &ExposedError{Dir: dir, Protected: p}
			}
			if p := services(name); p != "" {
				return g, nil, &ExposedError{Dir: dir, Protected: p}
			}
			if p := cmp.Or(g.obeyedIn(name, obeyed), b.hidden(g, name)); p != "" {
				return g, nil, &ExposedError{Dir: dir, Protected: p, Obeyed: true}
			}
		}
		if p := g.withHomeOf(dir).otherwise(dir, obeyed); p != "" {
			return g, nil, &ExposedError{Dir: dir, Protected: p}
		}
	}
	return g, dirs, nil
}

func (b Box) start() string {
	if b.Start != "" {
		return b.Start
	}
	return b.Dir
}

// A gitRule is what a sandbox does with the settings and hooks of repositories.
type gitRule bool

const (
	protectGit gitRule = true  // they are read-only
	openGit    gitRule = false // they are writable like the rest of the project
)

// mounts returns the paths in the sandbox. dirs are the directories of the
// session.
func (b Box) mounts(dirs []string, g guard, git gitRule) (*mounts, error) {
	m := new(mounts)
	m.system()
	m.add(empty, "", g.homes[0])
	m.also(b.variable("HOME"))
	m.programs(b, g)
	for _, dir := range b.Private {
		m.add(empty, "", real(dir))
	}
	for _, dir := range b.State {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &Error{Why: "the agent's directory " + dir + " cannot be created: " + err.Error()}
		}
		m.pin(writable, real(dir))
	}
	for _, file := range b.Files {
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			m.pin(writable, real(file))
		}
	}
	if err := m.copies(b); err != nil {
		return nil, err
	}
	for _, path := range b.Read {
		m.show(real(path))
	}
	for _, dir := range dirs {
		m.pin(writable, dir)
	}
	for _, dir := range dirs {
		if err := m.repository(dir, g, git); err != nil {
			return nil, err
		}
	}
	for _, dir := range append([]string{b.Dir}, b.Dirs...) {
		m.also(dir)
	}
	if b.Start != "" {
		m.show(real(b.Start))
		m.also(b.Start)
	}
	if err := m.allow(b, g, git); err != nil {
		return nil, err
	}
	m.hideProtected(g)
	if git == protectGit { // Landlock does not hide a part of a directory
		return m, m.spelled()
	}
	return m, nil
}

// outside are variables that lead to programs outside of a sandbox.
var outside = []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST"}

// without returns env without the named variables.
func without(env, names []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// override returns env with the variables of by, also if env has them.
func override(env, by []string) []string {
	names := make([]string, 0, len(by))
	for _, e := range by {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	return append(without(env, names), by...)
}
