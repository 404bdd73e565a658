package agentconn

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/proc"
)

// A shim is a program of a version manager such as asdf. It runs the version of
// another program that a file of the current folder, or of one above it, names.
// With the prefix "path:" the file names a folder with the program itself.

// versionFiles are the files in which version managers look for a version, with
// the texts by which such a file may name a path.
var versionFiles = map[string][]string{
	".tool-versions": {"path:"}, ".prototools": {"file:"},
	".node-version": namesPath, ".nvmrc": namesPath, ".python-version": namesPath, ".ruby-version": namesPath, ".go-version": namesPath, ".java-version": namesPath,
	"mise.toml": {"path:"}, "mise.local.toml": {"path:"}, ".mise.toml": {"path:"}, ".mise.local.toml": {"path:"},
	"mise/config.toml": {"path:"}, ".mise/config.toml": {"path:"}, ".config/mise.toml": {"path:"}, ".config/mise/config.toml": {"path:"},
}

// namesPath is for files that contain only a version. Old managers accept a
// path that leads out of their folder of versions.
var namesPath = []string{"path:", ".."}

// maxVersions bounds a file with versions, and the first line of a script, in
// bytes.
const maxVersions = 64 << 10

// usesShim reports whether a command runs a shim: as its program, as the
// interpreter of its program, or behind a wrapper.
func usesShim(program string, args, env []string) bool {
	words := []string{program}
	if slices.Contains(wrappers, baseName(program)) {
		words = append(words, args...)
	}
	if head, err := readBeginning(program); err == nil {
		line, _, _ := bytes.Cut(head, []byte("\n"))
		if line, script := bytes.CutPrefix(line, []byte("#!")); script {
			words = append(words, strings.Fields(string(line))...) // the interpreter, or env and its arguments
		}
	}
	return slices.ContainsFunc(words, func(word string) bool { return isShim(word) || findsShim(word, env) })
}

// findsShim reports whether the PATH of env leads from a bare name to a shim.
func findsShim(name string, env []string) bool {
	if name != filepath.Base(name) {
		return false
	}
	path := ""
	for _, e := range proc.Environ(env, []string{"PATH"}, nil) {
		_, path, _ = strings.Cut(e, "=")
	}
	found, err := proc.LookPath(name, path)
	return err == nil && isShim(found)
}

func isShim(program string) bool { return filepath.Base(filepath.Dir(program)) == "shims" }

// versionByPath returns the path of a file in dir, or in a folder above it, by
// which a shim would run a program at a path. It returns "" if there is none.
// The files in the user's home directory and above are the user's own.
func versionByPath(dir string) string {
	home, _ := os.UserHomeDir() // without a home directory, every folder above is checked
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	for dir != home {
		for _, name := range slices.Sorted(maps.Keys(versionFiles)) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			text, err := readBeginning(path)
			missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
			if err != nil && !missing || slices.ContainsFunc(versionFiles[name], func(s string) bool { return bytes.Contains(text, []byte(s)) }) {
				return path
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

// readBeginning returns the first maxVersions bytes of a regular file.
func readBeginning(path string) ([]byte, error) {
	f, _, err := OpenPlain(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxVersions))
}
