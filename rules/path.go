package rules

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// A location is where a path of a call leads.
type location struct {
	real     string // the path with its links resolved
	original string // the same path in the folder of which the session works in a copy; "" if the path is not in the copy
	err      error  // why the path cannot be resolved
}

// locate returns the location of a path of the call. It resolves each path
// once, however many rules ask for it. A file with several names counts as a
// path that cannot be resolved, because its other names are unknown.
func (a *action) locate(path string) location {
	l, ok := a.located[path]
	if !ok {
		l.real, l.err = resolve(a.dir, path)
		if file, err := os.Stat(l.real); l.err == nil && err == nil && hasSeveralNames(file) {
			l.err = errUnclear
		}
		if l.err == nil && a.copied != "" && subpath.Within(l.real, a.copied) {
			l.original = filepath.Join(a.original, strings.TrimPrefix(l.real, a.copied))
		}
		a.located[path] = l
	}
	return l
}

// A diskFile is a file or folder that exists.
type diskFile struct {
	fs.FileInfo
	up *diskFile // the nearest folder above it that exists
}

// existing returns the file at path, or else the nearest folder above it that
// exists. It reads each folder once, however many rules and paths there are.
func (a *action) existing(path string) *diskFile {
	f, ok := a.files[path]
	if ok {
		return f
	}
	if up := filepath.Dir(path); up != path {
		f = a.existing(up)
	}
	if is, err := os.Stat(path); err == nil {
		f = &diskFile{is, f}
	}
	a.files[path] = f
	return f
}

// within reports whether all paths, with their links resolved, are folder or
// lie in it, or are copies of such paths. The path of the folder was resolved when the rule was made: if a
// link replaces the folder later, paths through the link do not match.
func (a *action) within(paths []string, folder string) bool {
	for _, path := range paths {
		if l := a.locate(path); l.err != nil || !subpath.Within(l.real, folder) && !l.copies(folder) {
			return false
		}
	}
	return len(paths) > 0
}

// copies reports whether the path is a copy of folder, or of a path in it.
func (l location) copies(folder string) bool {
	return l.original != "" && subpath.Within(l.original, folder)
}

// touches reports whether a path of a call is the folder of a deny rule or lies
// in it. It also compares the folders on disk, because a file system may know a
// folder by several names, such as in upper and lower case. If the folder does not
// exist, touches cannot know whether its name in another case is the same one.
func (a *action) touches(folder string) tri {
	if len(a.paths) == 0 {
		return unknown
	}
	found := no
	if !a.plain() {
		found = unknown
	}
	for _, path := range a.paths {
		l := a.locate(path)
		if l.err != nil {
			found = unknown
			continue
		}
		if subpath.Within(l.real, folder) || a.existing(l.real).below(folder) || l.copies(folder) || l.original != "" && a.existing(l.original).below(folder) {
			return yes
		}
		if inOtherCase(l.real, folder) || inOtherCase(l.original, folder) {
			found = unknown
		}
	}
	return found
}

// inOtherCase reports whether path, in another case, is in a folder that does not
// exist.
func inOtherCase(path, folder string) bool {
	if len(path) < len(folder) || !strings.EqualFold(path[:len(folder)], folder) || len(path) > len(folder) && path[len(folder)] != filepath.Separator {
		return false
	}
	if _, err := os.Lstat(path[:len(folder)]); err == nil {
		return false // it exists, so it is not the folder
	}
	_, err := os.Lstat(folder)
	return errors.Is(err, fs.ErrNotExist)
}

// below reports whether f, or a folder above it, is the same file on disk as
// folder.
func (f *diskFile) below(folder string) bool {
	want, err := os.Stat(folder)
	for ; err == nil && f != nil; f = f.up {
		if os.SameFile(f.FileInfo, want) {
			return true
		}
	}
	return false
}

var errUnclear = errors.New("the path cannot be resolved")

// maxPath is the maximum length of a path, in bytes. Linux does not open longer
// paths. The time to resolve a path grows with the square of its length.
const maxPath = 4 << 10

// resolve returns a path with its links resolved. If the file does not exist
// yet, it resolves the folders that exist. It fails for a path with "..", which
// has a different meaning before and after links are resolved, for a path
// through a link that leads each process to a different file, and for a path
// that is longer than maxPath.
func resolve(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, ".") + string(filepath.Separator) + path
	}
	if len(path) > maxPath {
		return "", errUnclear
	}
	if slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }), "..") {
		return "", errUnclear
	}
	path = filepath.Clean(path)
	if throughProcess(path) {
		return "", errUnclear
	}
	rest := ""
	for {
		_, err := os.Lstat(path)
		if err == nil {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return "", errUnclear // such as a link to a missing file: writing to it creates the file
			}
			return filepath.Join(real, rest), nil
		}
		up := filepath.Dir(path)
		if up == path || !errors.Is(err, fs.ErrNotExist) {
			return "", errUnclear
		}
		path, rest = up, filepath.Join(filepath.Base(path), rest)
	}
}

var errNoHost = errors.New("the URL has no host that a rule could match")

// hostOf returns the host of a URL in lower case, with the port unless it is
// the scheme's default. A host consists of letters, digits, dots and dashes
// only, because other software may read other hosts differently.
func hostOf(raw string) (string, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r > 0x7e }) {
		return "", errNoHost
	}
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errNoHost
	}
	host := strings.ToLower(u.Hostname())
	if !isHost(host) {
		return "", errNoHost
	}
	if port := u.Port(); port != "" && !(u.Scheme == "https" && port == "443") && !(u.Scheme == "http" && port == "80") {
		host += ":" + port
	}
	return host, nil
}

// isHost reports whether s is a host name or an IPv4 address.
func isHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// connectionMatches reports whether the pattern of a rule matches a host and a
// port.
func connectionMatches(pattern, host string, port int) bool {
	pattern, only, has := strings.Cut(pattern, ":")
	if has && only != strconv.Itoa(port) || !has && port != 443 && port != 80 {
		return false
	}
	return hostMatches(pattern, host)
}

// hostMatches reports whether the pattern of a rule matches a host.
func hostMatches(pattern, host string) bool {
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return host == pattern
}
