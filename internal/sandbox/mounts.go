package sandbox

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/subpath"
)

func within(path, dir string) bool { return subpath.Within(path, dir) }

// A kind is how a path appears in a sandbox.
type kind string

const (
	readable kind = "--ro-bind"
	writable kind = "--bind"
	empty    kind = "--tmpfs"
	link     kind = "--symlink"
)

// A mount is one path in a sandbox. Source is the path outside, or the target of
// a link.
type mount struct {
	kind   kind
	source string
	path   string
	pinned bool // see pin
}

// mounts is the set of the paths in a sandbox. A path inside of another one is
// mounted after it.
type mounts struct {
	list []mount
}

// add adds a mount. It replaces an earlier one for the same path.
func (m *mounts) add(k kind, source, path string) {
	m.list = slices.DeleteFunc(m.list, func(have mount) bool { return have.path == path })
	m.list = append(m.list, mount{k, source, path, false})
}

// pin adds a mount of a path without links that another sandbox may be able to
// replace by a link. The bridge starts the agent only if the mount is the file
// or directory that pins finds.
func (m *mounts) pin(k kind, path string) {
	m.add(k, path, path)
	m.list[len(m.list)-1].pinned = true
}

// show makes a path readable, and no more than readable, if it exists.
func (m *mounts) show(path string) {
	if _, err := os.Stat(path); err != nil {
		return
	}
	if in := m.over(path); in.path == "" || in.kind != readable && in.path != path {
		m.add(readable, path, path)
	}
}

// over returns the mount in which a path lies; the zero mount if there is none.
func (m *mounts) over(path string) (found mount) {
	for _, have := range m.list {
		if within(path, have.path) && len(have.path) > len(found.path) {
			found = have
		}
	}
	return found
}

// byDepth returns the mounts in an order in which a directory comes before what
// is in it.
func (m *mounts) byDepth() []mount {
	sorted := slices.Clone(m.list)
	slices.SortStableFunc(sorted, func(a, b mount) int {
		return cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/"))
	})
	return sorted
}

// args returns the arguments of bubblewrap.
func (m *mounts) args() (out []string) {
	for _, e := range m.byDepth() {
		if e.kind == empty {
			out = append(out, string(e.kind), e.path)
			continue
		}
		out = append(out, string(e.kind), e.source, e.path)
	}
	return out
}

// system adds the programs and settings of the system.
func (m *mounts) system() {
	for _, root := range readableSystem {
		info, err := os.Lstat(root)
		switch {
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			if target, err := os.Readlink(root); err == nil {
				m.add(link, target, root)
			}
		case info.IsDir():
			m.add(readable, root, root)
		}
	}
	m.hidePrivate("/etc")
	for _, dir := range []string{"/tmp", "/run", "/var/tmp"} {
		m.add(empty, "", dir)
	}
	m.add(link, "../run", "/var/run")
}

// hidePrivate hides what other users may not read below a directory of the
// system, such as password hashes and private keys. A server that runs as root
// could read it.
func (m *mounts) hidePrivate(root string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			if d != nil && d.IsDir() && path != root {
				m.hide(path, true)
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		if !isPrivate(info) {
			return nil
		}
		m.hide(path, d.IsDir())
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// hide puts an empty file or directory in the place of a path.
func (m *mounts) hide(path string, isDir bool) {
	if isDir {
		m.add(empty, "", path)
		return
	}
	m.add(readable, os.DevNull, path)
}

// hideProtected hides the protected paths that lie in a directory that is in
// the sandbox for another reason.
func (m *mounts) hideProtected(g guard) {
	for _, p := range g.paths {
		in := m.over(p)
		if in.path == "" || in.kind == empty || in.kind == link {
			continue
		}
		if info, err := os.Stat(p); err == nil {
			m.hide(p, info.IsDir())
		}
	}
}

// also adds a link to a directory, if path has symbolic links. The agent may
// know the directory only by that path.
func (m *mounts) also(path string) {
	if target := real(path); target != filepath.Clean(path) && m.over(filepath.Clean(path)).kind != readable {
		m.add(link, target, filepath.Clean(path))
	}
}

// maxCopy bounds a file of which an agent gets a copy, in bytes.
const maxCopy = 64 << 20

// copies puts a copy of each file of Box.Copies in its place, if the file exists.
func (m *mounts) copies(b Box) error {
	for i, file := range b.Copies {
		path := real(file)
		data, err := nofollow.ReadSmall(path, maxCopy)
		if errors.Is(err, nofollow.ErrUnreadable) || errors.Is(err, nofollow.ErrNotRegular) {
			continue
		}
		if err == nil && b.Edit != nil {
			if data = b.Edit(data); data == nil {
				continue
			}
		}
		to := filepath.Join(b.Scratch, strconv.Itoa(i))
		if err == nil {
			err = os.MkdirAll(b.Scratch, 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			return &Error{Why: "the agent's file " + file + " cannot be copied: " + err.Error()}
		}
		m.add(writable, to, path)
	}
	return nil
}
