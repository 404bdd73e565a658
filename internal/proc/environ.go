package proc

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ours is the prefix of variables that are for this program. They may hold its
// token, and are never passed on.
const ours = "RUNNEL_"

// Base returns the names that a program needs to find itself at home on a
// system; see Environ. None of them is known to hold a secret.
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

// Environ builds a child's whole environment: the entries of parent whose names
// are allowed, and extra, which wins. A name in allow that ends in "*" is a
// prefix. Variables of this program (RUNNEL_…) are never taken from parent,
// whatever is allowed. The result is sorted and has each name once; the last in
// parent counts. PATH has absolute entries only: a relative one would let the
// directory in which the child works name its programs.
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

// FilterPath returns env with only those entries of PATH that are absolute and,
// if keep is not nil, for which keep reports true.
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

// LookPath is exec.LookPath for a bare name in the absolute entries of a PATH.
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

// fold makes names comparable as the system compares them.
func fold(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}
