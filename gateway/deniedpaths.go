package gateway

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The bounds of what is read of an output.
const (
	maxDeniedLine  = 2000 // bytes of a line
	maxDeniedLines = 40   // lines that say that something was denied
	maxDeniedPaths = 4    // paths of a line
	maxDeniedPath  = 4096 // bytes of a path

	maxDeniedArguments = 256 << 10 // bytes of the arguments of a call
)

// A deniedPath is a path that a program could not reach, as its output says.
type deniedPath struct {
	path  string
	write bool
}

// The words with which programs say that a path cannot be reached, in lower
// case: those of the C library, of Node.js and of agents' own tools.
var (
	sayDenied   = []string{"no such file or directory", "permission denied", "read-only file system", "eacces", "enoent", "erofs", "operation not permitted", "does not exist", "file not found"}
	sayReadOnly = []string{"read-only file system", "erofs"}
	sayWriting  = []string{
		"cannot create", "cannot touch", "cannot remove", "cannot move", "cannot copy", "for writing", "cannot make", "cannot rename", "cannot unlink", "mkdir", "unlink", "rename", "cannot write", "failed to write",
	}
)

// pathIn finds absolute paths in a line: quoted, or up to white space.
var pathIn = regexp.MustCompile("'(/[^']+)'|\"(/[^\"]+)\"|`(/[^`]+)`|‘(/[^’]+)’|(?:^|[\\s:=(\\[<,])(/[^\\s'\"`‘’<>|;]+)")

// deniedIn returns the paths that an output says could not be reached. named are
// the paths of the call's arguments, for outputs that name none. A program can
// print any line, so the result is not to be trusted.
func deniedIn(output string, named []string) (out []deniedPath) {
	lines := 0
	for line := range strings.SplitSeq(output, "\n") {
		if len(line) > maxDeniedLine {
			line = line[:maxDeniedLine]
		}
		lower := strings.ToLower(line)
		if !containsAny(lower, sayDenied) {
			continue
		}
		if lines++; lines > maxDeniedLines {
			break
		}
		write := containsAny(lower, sayReadOnly) || containsAny(lower, sayWriting)
		found := pathsIn(line)
		if len(found) == 0 {
			found = named
		}
		for _, path := range found {
			if d := (deniedPath{path, write}); !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// pathsIn returns the absolute paths that a line names.
func pathsIn(line string) (out []string) {
	for _, m := range pathIn.FindAllStringSubmatch(line, maxDeniedPaths) {
		path := strings.Join(m[1:], "") // only one group matches
		if m[5] != "" {
			path = strings.TrimRight(path, ":,.)]")
		}
		if filepath.IsAbs(path) && len(path) > 1 {
			out = append(out, filepath.Clean(path))
		}
	}
	return out
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
