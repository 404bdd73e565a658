package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/confine"
)

// A sandbox of files has the plan of the other one, without namespaces: Landlock
// allows access to the paths of the plan where they are. What the plan puts in
// the place of something else, such as an empty home directory and copies of
// files, is in a directory of its own, to which HOME and the like point. There,
// links lead to the paths that the plan shows.

// The names in Box.Own.
const (
	ownHome = "h" // the directories of the plan that are empty, by their whole paths
	ownTemp = "t" // for temporary files
)

// Confined returns the program and the arguments that run the agent of b with
// access to the files of the plan only, and the agent's environment. It creates
// the missing directories of the agent's state, and Box.Own. It fails with an
// *Error or an *ExposedError if the sandbox cannot be made.
func (b Box) Confined() (path string, args, env []string, err error) {
	if err := CheckFiles(); err != nil {
		return "", nil, nil, err
	}
	g, dirs, err := b.check()
	if err != nil {
		return "", nil, nil, err
	}
	m, err := b.mounts(dirs, g, openGit)
	if err != nil {
		return "", nil, nil, err
	}
	rules, err := m.rules()
	if err != nil {
		return "", nil, nil, err
	}
	if b.Own, err = b.makeOwn(m, g); err != nil {
		return "", nil, nil, &Error{Why: "the agent's private home directory cannot be created: " + err.Error()}
	}
	rules = append(rules, always()...)
	for _, dir := range []string{ownHome, ownTemp} {
		rules = append(rules, confine.Rule{Access: confine.Write, Path: filepath.Join(b.Own, dir)})
	}
	return "/proc/self/exe", confine.Args(rules, b.Program, b.Args), b.confinedEnv(m, g), nil
}

// version returns the version of Landlock. Tests replace it.
var version = confine.Version

// CheckFiles fails with an *Error if this kernel cannot enforce a sandbox of
// files.
func CheckFiles() error {
	switch v := version(); {
	case v >= confine.MinVersion:
		return nil
	case v > 0:
		return &Error{
			Why: fmt.Sprintf("sandbox: files needs version %d of Landlock; this kernel has version %d, which lets a program empty files that it may not write", confine.MinVersion, v),
			Fix: "Use Linux 6.2 or newer, or sandbox: project.",
		}
	}
	return &Error{Why: "sandbox: files needs Landlock, which this kernel does not have or has switched off", Fix: "Use Linux 6.2 or newer with landlock in its parameter lsm, or sandbox: project."}
}

// Landlock returns the version of Landlock that the kernel offers, or 0.
func Landlock() int { return version() }

// rules returns what Landlock must allow for the mounts that show a path where
// it is. Landlock cannot take away a part of a directory. So a readable
// directory with a hidden part is replaced by its entries, and a writable one is
// an error.
func (m *mounts) rules() (out []confine.Rule, err error) {
	var hidden []string
	for _, e := range m.list {
		if e.kind == empty || e.kind != link && e.source != e.path {
			hidden = append(hidden, e.path)
		}
	}
	for _, e := range m.byDepth() {
		switch {
		case e.source != e.path: // hidden, a copy or a link
		case e.kind == readable && e.pinned && !slices.ContainsFunc(hidden, func(p string) bool { return within(p, e.path) }):
			p, err := examine(e.path)
			if err != nil {
				return nil, replaced(e.path, err)
			}
			out = append(out, confine.Rule{Access: confine.Read, Path: e.path, Dev: p.Dev, Ino: p.Ino})
		case e.kind == readable:
			for _, path := range entries(real(e.path), hidden) {
				out = append(out, confine.Rule{Access: confine.Read, Path: path})
			}
		default:
			if i := slices.IndexFunc(hidden, func(p string) bool { return within(p, e.path) }); i >= 0 {
				return nil, &Error{Why: "sandbox: files cannot hide " + hidden[i] + " from an agent that may write " + e.path, Fix: "Use sandbox: project."}
			}
			p, err := examine(e.path)
			if err != nil {
				return nil, replaced(e.path, err)
			}
			out = append(out, confine.Rule{Access: confine.Write, Path: e.path, Dev: p.Dev, Ino: p.Ino})
		}
	}
	return out, nil
}

// isReachable reports whether this user can read or enter a path. What the user
// cannot reach needs no hiding.
func isReachable(path string) bool {
	return unix.Access(path, unix.R_OK) == nil || unix.Access(path, unix.X_OK) == nil
}

// entries returns a path, or what is in it if it contains one of the hidden
// paths, without those.
func entries(path string, hidden []string) (out []string) {
	if slices.Contains(hidden, path) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(p string) bool { return within(p, path) && isReachable(p) }) {
		return []string{path}
	}
	list, _ := os.ReadDir(path) // what cannot be listed is not allowed
	for _, e := range list {
		if e.Type()&fs.ModeSymlink == 0 { // Landlock checks what a link leads to
			out = append(out, entries(filepath.Join(path, e.Name()), hidden)...)
		}
	}
	return out
}

// resolvers are directories in which programs that manage the network replace
// the file with the addresses of name servers.
var resolvers = []string{"/run/systemd/resolve", "/run/resolvconf"}

// always returns the rules for what every program needs of a running system. They
// allow no terminals: those of the user's other programs are among them.
func always() (out []confine.Rule) {
	for _, path := range append([]string{"/proc", real("/etc/resolv.conf")}, resolvers...) {
		out = append(out, confine.Rule{Access: confine.Read, Path: path})
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		out = append(out, confine.Rule{Access: confine.Write, Path: "/dev/" + name})
	}
	return out
}

// roots returns the directories that the agent has in Box.Own.
func (b Box) roots(g guard) []string {
	roots := g.homes[:1:1]
	for _, dir := range b.Private {
		roots = append(roots, real(dir))
	}
	return roots
}

// makeOwn creates Box.Own and returns its canonical path. m are the mounts and g
// knows the home directories.
func (b Box) makeOwn(m *mounts, g guard) (string, error) {
	for _, dir := range []string{ownHome, ownTemp} {
		if err := os.MkdirAll(filepath.Join(b.Own, dir), 0o700); err != nil {
			return "", err
		}
	}
	own := real(b.Own)
	home := filepath.Join(own, ownHome)
	roots := b.roots(g)
	var linked []string // their content needs no links of its own
	inside := func(dirs []string, path string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
	}
	for _, e := range m.byDepth() {
		if e.kind == link || !inside(roots, e.path) || inside(linked, e.path) {
			continue
		}
		to := filepath.Join(home, e.path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		var err error
		switch {
		case e.kind == empty:
			err = os.MkdirAll(to, 0o700)
		case e.kind == writable && e.source != e.path: // a copy
			err = os.Rename(e.source, to)
		case e.source == e.path:
			linked = append(linked, e.path)
			err = os.Symlink(e.path, to)
		}
		if err != nil {
			return "", err
		}
	}
	return own, nil
}

// confinedEnv returns the environment of the agent. A variable that names a
// directory which the plan hides, or which has one of the agent's own
// directories, names the same directory in Box.Own.
func (b Box) confinedEnv(m *mounts, g guard) []string {
	roots := b.roots(g)
	env := without(b.Env, outside)
	for i, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !filepath.IsAbs(value) || strings.ContainsRune(value, filepath.ListSeparator) {
			continue
		}
		dir := real(value)
		if in := m.over(dir); in.source == in.path && in.path != "" || dir == "/" {
			continue // the agent reaches it where it is
		}
		if slices.ContainsFunc(roots, func(root string) bool { return within(root, dir) || within(dir, root) }) {
			env[i] = name + "=" + filepath.Join(b.Own, ownHome, dir)
		}
	}
	temp := filepath.Join(b.Own, ownTemp)
	set := []string{"HOME=" + filepath.Join(b.Own, ownHome, g.homes[0])}
	for _, name := range append([]string{"TMPDIR", "TMP", "TEMP"}, b.TempVars...) {
		set = append(set, name+"="+temp)
	}
	return override(env, append(set, "TMPPREFIX="+filepath.Join(temp, "zsh")))
}
