package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// ours is the prefix of the variables of this program. They may hold its token,
// so a child never inherits them.
const ours = "RUNNEL_"

// Base returns the names of the variables that a program needs on every system;
// see Environ. None of them is known to hold a secret.
func Base() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
		// Windows
		"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
		"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)",
	}
}

// Environ returns the complete environment of a child: the entries of parent
// whose names are in allow, and the entries of extra, which override them. A
// name in allow that ends in "*" is a prefix. Variables of this program
// (RUNNEL_…) are never taken from parent.
//
// The result is sorted and has each name once; the last entry in parent wins.
// PATH keeps only absolute entries: with a relative entry the child's working
// directory could supply its programs.
func Environ(parent, allow []string, extra map[string]string) []string {
	env := make(map[string]string) // folded name → entry
	for _, entry := range parent {
		name, _, ok := strings.Cut(entry, "=")
		if ok && name != "" && allowed(name, allow) {
			env[fold(name)] = entry
		}
	}
	for name, value := range extra {
		env[fold(name)] = name + "=" + value
	}
	list := make([]string, 0, len(env))
	for _, entry := range env {
		list = append(list, entry)
	}
	slices.Sort(list)
	return FilterPath(list, nil)
}

// OwnCode returns env, with which Node.js loads no code that another user may have
// compiled. A program can switch the compile cache of Node.js on. The cache is then
// in the folder for temporary files, also if another user created it there. env keeps a
// folder of its own for it.
func OwnCode(env []string) []string {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(fold(e), "NODE_COMPILE_CACHE=") }) {
		return env
	}
	return append(env, "NODE_DISABLE_COMPILE_CACHE=1")
}

// FilterPath returns a copy of env whose PATH keeps only absolute entries for
// which keep returns true. A nil keep keeps all absolute entries.
func FilterPath(env []string, keep func(dir string) bool) []string {
	out := slices.Clone(env)
	for i, entry := range out {
		name, value, _ := strings.Cut(entry, "=")
		if fold(name) != "PATH" {
			continue
		}
		dirs := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool {
			return !filepath.IsAbs(dir) || keep != nil && !keep(dir)
		})
		out[i] = name + "=" + strings.Join(dirs, string(filepath.ListSeparator))
	}
	return out
}

// Outside returns a function that reports whether a directory is in none of the
// folders. It ignores folders that contain the user's home directory, and the
// root of the file system: the programs there are the user's or the system's
// own.
func Outside(folders []string) func(dir string) bool {
	home, _ := os.UserHomeDir() // if unknown, all folders count
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	folders = slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return home != "" && subpath.Within(home, f) || filepath.Dir(f) == f })
	return func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return !slices.ContainsFunc(folders, func(f string) bool { return subpath.Within(dir, f) || err == nil && subpath.Within(real, f) })
	}
}

// LookPath searches the absolute entries of path for the bare name, like
// exec.LookPath.
func LookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func allowed(name string, allow []string) bool {
	name = fold(name)
	if strings.HasPrefix(strings.ToUpper(name), ours) {
		return false
	}
	return slices.ContainsFunc(allow, func(a string) bool {
		a = fold(a)
		prefix, isPrefix := strings.CutSuffix(a, "*")
		return name == a || isPrefix && strings.HasPrefix(name, prefix)
	})
}

// fold returns name in the form in which the system compares names.
func fold(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}
