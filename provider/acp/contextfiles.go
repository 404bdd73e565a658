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
	found := ""
	findUpward(dir, names, func(path string) bool {
		folder := filepath.Dir(path)
		s := contextSearch{root: repository(folder), reach: []string{marked(dir), marked(folder)}, imports: imports, seen: make(map[string]bool)}
		found = s.search(path)
		return found != ""
	})
	return found
}

// A contextSearch examines files for the model, and what they lead to.
type contextSearch struct {
	root    string   // of the repository, without links
	reach   []string // folders that an agent may take for the repository; it rejects an import whose path leads out of it
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
	to, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil: // a link to a missing file leads nowhere
		return ""
	case !inside(to, s.root) || len(s.seen) > maxContextFiles:
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

// list adds the contents of a folder, once.
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
	if err != nil {
		return "" // the agent cannot read it either
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(maxContextText-s.text+1)))
	f.Close()
	if s.text += len(text); err != nil || s.text > maxContextText {
		return path
	}
	for rest := text; ; {
		at := bytes.IndexByte(rest, '@')
		if at < 0 {
			return ""
		}
		if s.markers++; s.markers > maxImports {
			return path
		}
		rest = rest[at+1:]
		for _, name := range imported(rest) {
			for _, dir := range []string{filepath.Dir(path), filepath.Dir(to)} {
				if found := s.follow(dir, name); found != "" {
					return found
				}
			}
		}
	}
}

const maxPath = 4096 // bytes of a path that can be opened, on Linux

// imported returns the paths that the text after an "@" can stand for: the text
// up to the next white space (Qwen Code 0.24.4), and the same without
// punctuation at its end.
func imported(text []byte) []string {
	text = text[:min(len(text), 2*maxPath)]
	if end := bytes.IndexAny(text, " \t\r\n"); end >= 0 {
		text = text[:end]
	}
	var names []string
	for _, name := range [][]byte{text, bytes.TrimRight(text, ".,;:!?)]}>\"'`*")} {
		if len(name) > 0 && len(name) < maxPath && !slices.Contains(names, string(name)) {
			names = append(names, string(name))
		}
	}
	return names
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
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(to); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if !inside(path, s.root) || !inside(to, s.root) {
		return path
	}
	s.add(path)
	return ""
}

// marked returns the nearest folder around dir, or dir itself, that has a .git
// of any kind, or dir if there is none.
func marked(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
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
		to, err := filepath.EvalSymlinks(path)
		return err == nil && !inside(to, root)
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

// eachEntry calls do for the entries of a folder, in any order, until do
// returns false: then it fails with errStopped.
func eachEntry(dir string, do func(fs.DirEntry) bool) error {
	f, err := os.Open(dir)
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
