package agentconn

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
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

// shimRuns returns the path of a file in dir, or in a folder above it, by which a
// command that runs a shim would run a program at a path. The shim is the
// command's program, the interpreter of its program, or behind a wrapper. shimRuns
// returns "" if there is no such file or no shim.
func shimRuns(program string, args, env []string, dir string) string {
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
	for _, word := range words {
		found := inPath(word, env)
		file := ""
		switch {
		case isShim(found):
			file = versionByPath(dir)
		case isVolta(found):
			file = projectOf(dir, filepath.Base(found))
		}
		if file != "" {
			return file
		}
	}
	return ""
}

// inPath returns the path to which the PATH of env leads from a bare name. It
// returns other names unchanged, and "" if there is no such program.
func inPath(name string, env []string) string {
	if name != filepath.Base(name) {
		return name
	}
	path := ""
	for _, e := range proc.Environ(env, []string{"PATH"}, nil) {
		_, path, _ = strings.Cut(e, "=")
	}
	found, err := proc.LookPath(name, path)
	if err != nil {
		return ""
	}
	return found
}

func isShim(program string) bool { return filepath.Base(filepath.Dir(program)) == "shims" }

// isVolta reports whether a program is a shim of Volta, which is a link to
// volta-shim. In a project that depends on the program's package, it runs the
// program in the project's node_modules/.bin. Of node, it chooses only the version.
func isVolta(program string) bool {
	real, err := filepath.EvalSymlinks(program)
	return err == nil && baseName(real) == "volta-shim" && baseName(program) != "node"
}

// projectOf returns the path of a file in dir, or in a folder above it, by which a
// shim of Volta may run a program of a project. name is the name of the program.
func projectOf(dir, name string) string {
	for dir := range outsideHome(dir) {
		for _, file := range []string{filepath.Join("node_modules", ".bin", name), ".pnp.cjs", ".pnp.js"} { // from the last two, Yarn runs the program
			if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
				return filepath.Join(dir, file)
			}
		}
		path := filepath.Join(dir, "package.json")
		text, err := readBeginning(path)
		if missing(err) {
			continue
		}
		var manifest struct {
			Volta struct{ Extends json.RawMessage } // another project, in which Volta also looks for the program
		}
		if err != nil || json.Unmarshal(text, &manifest) != nil || manifest.Volta.Extends != nil {
			return path
		}
	}
	return ""
}

// outsideHome yields dir and the folders above it, except for the user's home
// directory and those above that: files there are the user's own.
func outsideHome(dir string) iter.Seq[string] {
	home, _ := os.UserHomeDir() // without a home directory, every folder above is checked
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	return func(yield func(string) bool) {
		for dir != home && yield(dir) {
			up := filepath.Dir(dir)
			if up == dir {
				return
			}
			dir = up
		}
	}
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// versionByPath returns the path of a file in dir, or in a folder above it, by
// which a shim would run a program at a path. It returns "" if there is none.
func versionByPath(dir string) string {
	for dir := range outsideHome(dir) {
		for _, name := range slices.Sorted(maps.Keys(versionFiles)) {
			path := filepath.Join(dir, filepath.FromSlash(name))
			text, err := readBeginning(path)
			if err != nil && !missing(err) || slices.ContainsFunc(versionFiles[name], func(s string) bool { return bytes.Contains(text, []byte(s)) }) {
				return path
			}
		}
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
