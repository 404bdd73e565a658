package acp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Bounds of the files that are examined before a start. A folder that exceeds
// one counts as a folder with a link to the outside.
const (
	maxContextFiles = 10_000  // files and folders for the model
	maxContextText  = 4 << 20 // bytes of the files that can import others
	maxImports      = 10_000  // "@" in these files
	maxBelow        = 500_000 // files and folders below a folder
)

// findLinkOutside is like findSettings, for files and folders that the agent
// sends to the model. It returns the first one that is, or contains, a symbolic
// link to a path outside of the repository. imports states that such a file can
// import other files: then findLinkOutside also returns the path of an imported
// file that is outside.
func findLinkOutside(dir string, names []string, imports bool) string {
	s := contextSearch{imports: imports, seen: make(map[string]bool)}
	found := ""
	findUpward(dir, names, func(path string) bool {
		folder := filepath.Dir(path)
		s.root, s.reach = repository(folder), []string{marked(dir), marked(folder)}
		found = s.search(path)
		return found != ""
	})
	return found
}

// A contextSearch examines the files that an agent sends to the model, and the
// files that these import.
type contextSearch struct {
	root    string   // of the repository, without links
	reach   []string // folders that an agent may treat as the repository; it rejects an import whose path leads out of its repository
	imports bool     // see findLinkOutside

	queue   []string
	seen    map[string]bool // everything that was in the queue
	text    int             // bytes that were read
	markers int             // "@" that were found
}

// search returns the path of the first file that is outside of the repository,
// or of the first file or folder that exceeds a bound, or "".
func (s *contextSearch) search(path string) string {
	for s.add(path); len(s.queue) > 0; {
		next := s.queue[0]
		s.queue = s.queue[1:]
		if found := s.examine(next); found != "" {
			return found
		}
	}
	return ""
}

func (s *contextSearch) add(path string) {
	if !s.seen[path] {
		s.seen[path] = true
		s.queue = append(s.queue, path)
	}
}

// examine returns path if it leads outside, and the path of an imported file if
// that does. It adds what a folder contains and what a file imports.
func (s *contextSearch) examine(path string) string {
	to, outside := leadsOutside(path, s.root)
	if outside || len(s.seen) > maxContextFiles {
		return path
	}
	info, err := os.Stat(to)
	switch {
	case err != nil:
	case info.IsDir():
		return s.list(to)
	case s.imports && info.Mode().IsRegular():
		return s.scan(path, to)
	}
	return ""
}

// list adds the contents of a folder to the queue, once. It returns dir if the
// folder has too many entries.
func (s *contextSearch) list(dir string) string {
	key := dir + string(filepath.Separator)
	if s.seen[key] {
		return ""
	}
	s.seen[key] = true
	err := eachEntry(dir, func(e fs.DirEntry) bool {
		s.add(filepath.Join(dir, e.Name()))
		return len(s.seen) <= maxContextFiles
	})
	if errors.Is(err, errStopped) {
		return dir
	}
	return ""
}

// scan adds the files that a file imports. The agent may resolve an import from
// the folder of the file's path, or of its real path.
func (s *contextSearch) scan(path, to string) string {
	f, _, err := agentconn.OpenPlain(os.OpenFile, to)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "" // the agent cannot read it either
	}
	if err != nil {
		return path
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(maxContextText-s.text+1)))
	f.Close()
	if s.text += len(text); err != nil || s.text > maxContextText {
		return path
	}
	dirs := slices.Compact([]string{filepath.Dir(path), filepath.Dir(to)})
	for rest := text; ; {
		at := bytes.IndexByte(rest, '@')
		if at < 0 {
			return ""
		}
		rest = rest[at+1:]
		names, ok := imported(rest)
		if s.markers++; s.markers > maxImports || !ok {
			return path
		}
		for _, name := range names {
			for _, dir := range dirs {
				if found := s.follow(dir, name); found != "" {
					return found
				}
			}
		}
	}
}

// maxPath is the limit, in bytes, of an import that is resolved. Text such as
// "././" can make any path longer than that.
const maxPath = 4096

// imported returns the paths that the text after an "@" can stand for: the text
// up to the next white space (Qwen Code 0.24.4), and the same without
// punctuation at its end. ok is false for a path that the agent may read in
// another way: it has maxPath bytes or more, or is not UTF-8.
func imported(text []byte) (names []string, ok bool) {
	if end := bytes.IndexAny(text[:min(len(text), maxPath)], " \t\r\n"); end >= 0 {
		text = text[:end]
	}
	if len(text) >= maxPath || !utf8.Valid(text) {
		return nil, false
	}
	for _, name := range []string{string(text), strings.TrimRight(string(text), ".,;:!?)]}>\"'`*")} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, true
}

// follow returns the path of an imported file that exists outside of the
// repository, and adds one that exists inside.
func (s *contextSearch) follow(dir, name string) string {
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	if s.seen[path] || !slices.ContainsFunc(s.reach, func(root string) bool { return inside(path, root) }) {
		return ""
	}
	to, outside := leadsOutside(path, s.root)
	if to != "" {
		if info, err := os.Stat(to); err != nil || !info.Mode().IsRegular() {
			return "" // nothing imports a folder
		}
	}
	switch {
	case outside || to != "" && !inside(path, s.root):
		return path
	case to != "":
		s.add(path)
	}
	return ""
}

// leadsOutside returns where a path leads, or "" if that does not exist, and
// reports whether that is outside of root. A link that leads each process
// elsewhere counts as outside.
func leadsOutside(path, root string) (to string, outside bool) {
	if _, same := targetOf(path); !same {
		return "", true
	}
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	return to, !inside(to, root)
}

// maxLinks is the number of links in a path that the system follows.
const maxLinks = 40

// targetOf returns the path to which the links in an absolute path lead, also if
// nothing exists there. same is false if a link leads through /proc or /dev, where
// links such as /proc/self/cwd lead each process elsewhere, or if there are more
// than maxLinks links.
func targetOf(path string) (to string, same bool) {
	links := 0
	split := func(p string) (root string, parts []string) {
		volume := filepath.VolumeName(p)
		return volume + string(filepath.Separator), strings.FieldsFunc(p[len(volume):], func(r rune) bool { return r == filepath.Separator })
	}
	at, rest := split(path)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, part)
		if links > 0 && (at == "/proc" || at == "/dev") {
			return "", false
		}
		to, err := os.Readlink(at)
		if err != nil {
			continue // not a link, or missing
		}
		if links++; links > maxLinks {
			return "", false
		}
		root, parts := split(to)
		if filepath.IsAbs(to) {
			at = root
		} else {
			at = filepath.Dir(at)
		}
		rest = append(parts, rest...)
	}
	return at, true
}

// marked returns the nearest folder around dir, or dir itself, that has a .git
// file or folder, also an empty one, or dir if there is none.
func marked(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; {
		if info, err := os.Lstat(filepath.Join(at, ".git")); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}

// inside reports whether a clean path is root or below root.
func inside(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
}

// findNestedLinkOutside returns the path of the first file with one of these
// names, anywhere in the repository that contains dir, that is a symbolic link
// to a path outside of the repository, or "". It returns the repository if that
// has too many files.
func findNestedLinkOutside(dir string, names []string) string {
	if len(names) == 0 || dir == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	root := repository(dir)
	found, whole := findBelow(root, names, func(path string) bool {
		_, outside := leadsOutside(path, root)
		return outside
	})
	if found == "" && !whole {
		return fmt.Sprintf("%s (it has more than %d files)", root, maxBelow)
	}
	return found
}

// findBelow returns the path of a file in dir or below it that has one of these
// names and satisfies is, or "". whole is false if it examined only some of the
// folders, because there are more than maxBelow files. It examines the nearest
// folders first, and follows no links.
func findBelow(dir string, names []string, is func(path string) bool) (found string, whole bool) {
	queue, seen := []string{dir}, 0
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		err := eachEntry(at, func(e fs.DirEntry) bool {
			path := filepath.Join(at, e.Name())
			if seen++; slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, e.Name()) }) && is(path) {
				found = path
			}
			if e.IsDir() && e.Name() != ".git" {
				queue = append(queue, path)
			}
			return found == "" && seen <= maxBelow
		})
		if found == "" && errors.Is(err, fs.ErrPermission) { // the agent can know the name
			for _, name := range names {
				path := filepath.Join(at, name)
				if _, err := os.Lstat(path); err == nil && is(path) {
					found = path
				}
			}
		}
		if found != "" || seen > maxBelow {
			return found, false
		}
	}
	return "", true
}

var errStopped = errors.New("stopped")

// eachEntry calls do for each entry of a folder, in any order. If do returns
// false, eachEntry stops and fails with errStopped.
func eachEntry(dir string, do func(fs.DirEntry) bool) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1000)
		for _, e := range entries {
			if !do(e) {
				return errStopped
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
