package acp

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

// findLinkOutside is like findSettings, for files and folders that the agent
// sends to the model. It returns the first one that is, or contains, a symbolic
// link to a path outside of the repository, or that contains too many files. If
// one of them imports a file through such a link, it returns the path of the
// imported file.
func findLinkOutside(dir string, names []string) string {
	imported := ""
	found := findUpward(dir, names, func(path string) bool {
		root, out, seen := repository(filepath.Dir(path)), false, 0
		read := make(map[string]bool)
		_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error { // a missing file is not a link
			if seen++; seen > maxWalk || out || imported != "" {
				return fs.SkipAll
			}
			switch {
			case err != nil || d.IsDir():
			case d.Type()&fs.ModeSymlink != 0 && leadsOutside(p, root):
				out = true
			default:
				imported = importOutside(p, root, read)
			}
			return nil
		})
		return out || imported != "" || seen > maxWalk
	})
	if imported != "" {
		return imported
	}
	return found
}

// maxWalk is the maximum number of files that findLinkOutside examines in a
// folder.
const maxWalk = 10_000

// leadsOutside reports whether a path leads to a file or folder outside of
// root. A link to a missing file leads nowhere.
func leadsOutside(path, root string) bool {
	to, err := filepath.EvalSymlinks(path)
	return err == nil && !inside(to, root)
}

// inside reports whether a clean path is root or below root.
func inside(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
}

// importPath matches the import of another file in a file for the model. An
// agent may end the path before a punctuation mark.
var importPath = regexp.MustCompile(`@([^\s@]+)`)

// Bounds of importOutside.
const (
	maxImports    = 1000    // files; more count as a link to the outside
	maxImportText = 1 << 20 // bytes of a file; further text is not read
)

// importOutside returns the path of the first file that the file at path
// imports through a link that leads outside of root, or "". It reads imported
// files, too. Agents reject an import whose path itself leads outside of the
// repository, but not every agent resolves links first (Qwen Code 0.24.4).
func importOutside(path, root string, read map[string]bool) string {
	if read[path] {
		return ""
	}
	if read[path] = true; len(read) > maxImports {
		return path
	}
	f, _, err := agentconn.OpenPlain(os.OpenFile, path)
	if err != nil {
		return "" // the agent cannot read it either
	}
	text, err := io.ReadAll(io.LimitReader(f, maxImportText))
	f.Close()
	if err != nil {
		return ""
	}
	for _, m := range importPath.FindAllSubmatch(text, -1) {
		name := filepath.FromSlash(string(m[1]))
		for _, name := range []string{name, strings.TrimRight(name, ".,;:!?)]}>\"'`*")} {
			to := name
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			if to = filepath.Clean(to); name == "" || !inside(to, root) {
				continue
			}
			if leadsOutside(to, root) {
				return to
			}
			if found := importOutside(to, root, read); found != "" {
				return found
			}
		}
	}
	return ""
}

// findNestedLinkOutside returns the path of the first file with one of these
// names, anywhere in the repository that contains dir, that is a symbolic link
// to a path outside of the repository, or "".
func findNestedLinkOutside(dir string, names []string) string {
	if len(names) == 0 || dir == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	root := repository(dir)
	return findBelow(root, names, func(path string) bool { return leadsOutside(path, root) })
}

// maxBelow is the maximum number of files and folders that findBelow examines.
const maxBelow = 200_000

// findBelow returns the path of a file in dir or below it that has one of these
// names and satisfies is, or "". It examines the nearest folders first, and
// follows no links.
func findBelow(dir string, names []string, is func(path string) bool) string {
	queue := []string{dir}
	for seen := 0; len(queue) > 0 && seen < maxBelow; queue = queue[1:] {
		entries, err := os.ReadDir(queue[0])
		if err != nil {
			continue // the agent cannot list it either
		}
		seen += len(entries)
		for _, e := range entries {
			path := filepath.Join(queue[0], e.Name())
			named := slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, e.Name()) })
			if named && is(path) {
				return path
			}
			if e.IsDir() && e.Name() != ".git" {
				queue = append(queue, path)
			}
		}
	}
	return ""
}
