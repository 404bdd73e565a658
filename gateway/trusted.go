package gateway

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// Trusts reports whether dir is one of the trusted directories or lies in one.
// A trusted directory whose path leads through a link counts as missing; see
// [LinkTo].
func Trusts(trusted []string, dir string) bool {
	dir = canonical(dir)
	return slices.ContainsFunc(trusted, func(root string) bool {
		real, link := followRoot(root)
		return link == "" && (subpath.Within(dir, real) || inSameDir(dir, real))
	})
}

// Untrusted returns the elements of dirs that are not trusted; see [Trusts].
func Untrusted(trusted, dirs []string) (out []string) {
	for _, dir := range dirs {
		if !Trusts(trusted, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// LinkTo returns the first symbolic link on the path of a trusted directory, or
// "" if there is none. A user or an agent in a sandbox that can write the
// directory around such a link could choose with it which directories are
// trusted. Links that only root can change do not count.
func LinkTo(trusted string) (link string) {
	_, link = followRoot(trusted)
	return link
}

// maxRootLinks bounds the links of root on one path.
const maxRootLinks = 40

// followRoot returns path without the links on it that only root can change,
// such as /tmp on macOS, and the first other link on it.
func followRoot(path string) (real, link string) {
	top := filepath.VolumeName(path) + string(filepath.Separator)
	rest := elements(path)
	real = top
	for links := 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > maxRootLinks || !onlyRootChanges(real, info) {
			return "", next
		}
		if filepath.IsAbs(to) {
			real = top
		}
		rest = append(elements(to), rest...)
	}
	return real, ""
}

// elements returns the names in path, without its volume.
func elements(path string) []string {
	rest := filepath.ToSlash(path[len(filepath.VolumeName(path)):])
	return strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
}

// inSameDir reports whether dir lies in the directory at root under another
// name, because a file system may have several names for one directory, for
// example in different case. It follows no link to root.
func inSameDir(dir, root string) bool {
	is, ok := statWithoutLinks(root)
	return ok && lies(dir, is)
}

func statWithoutLinks(path string) (fs.FileInfo, bool) {
	top, err := nofollow.Root(filepath.VolumeName(path) + string(filepath.Separator))
	if err != nil {
		return nil, false
	}
	defer top.Close()
	dir, err := nofollow.OpenDir(top, filepath.Join(append([]string{"."}, elements(path)...)...))
	if err != nil {
		return nil, false
	}
	defer dir.Close()
	info, err := dir.Stat(".")
	return info, err == nil
}
