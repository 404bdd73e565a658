package agentconn

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// launchers are programs that look for the program to run in the folder in
// which they are started, or obey its settings before they run it. The words
// are the subcommands that do so; none stands for all.
var launchers = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "uvx": nil, "pipx": nil, "corepack": nil,
	"pnpm": nil, "yarn": nil, "yarnpkg": nil, // also run programs of the folder by their bare names
	"npm": {"exec", "x", "run", "run-script", "start"}, "bun": {"x", "run"}, "deno": {"run", "task", "x"}, "node": {"--run"},
	"uv": {"run", "tool"}, "poetry": {"run"}, "pipenv": {"run"}, "hatch": {"run"}, "pdm": {"run"}, "rye": {"run"},
	"mise": {"exec", "x", "run"}, "volta": {"run"},
}

// wrappers are programs that run the program that their arguments name. Shells
// are none of them: what a shell runs is a text of its own language.
var wrappers = []string{
	"env", "nice", "nohup", "timeout", "gtimeout", "time", "setsid", "stdbuf", "ionice", "chrt", "taskset", "numactl", "choom", "prlimit",
	"sudo", "doas", "runuser", "setpriv", "chroot", "unshare", "nsenter", "systemd-run", "systemd-inhibit", "caffeinate", "arch", "flock", "xargs",
	"strace", "ltrace", "unbuffer", "chronic", "xvfb-run", "dbus-run-session", "dotenv", "direnv", "busybox", "toybox",
}

// wrapped returns the arguments of a command. Behind a wrapper, a text that env
// splits into words (env -S) is split here, too.
func wrapped(path string, args []string) []string {
	if !slices.Contains(wrappers, baseName(path)) || !slices.ContainsFunc(args, splitOption.MatchString) {
		return args
	}
	var words []string
	for _, a := range args {
		for w := range strings.FieldsSeq(splitOption.ReplaceAllString(a, "")) {
			words = append(words, strings.Trim(w, `"'`))
		}
	}
	return words
}

// splitOption matches the option of env whose value may begin in the same word.
var splitOption = regexp.MustCompile(`^(-[A-Za-z0]*S|--split-string=)`)

// launcher returns the launcher of a command, "" if it has none. It considers
// every argument of a wrapper: which options have a value differs between
// versions, and a value that is the name of a launcher costs no more than an
// error.
func launcher(path string, args []string) string {
	name := launches(path, args)
	if !slices.Contains(wrappers, baseName(path)) {
		return name
	}
	for i := 0; i < len(args) && name == ""; i++ {
		if variable, _, ok := strings.Cut(args[i], "="); !ok || strings.Contains(variable, "/") { // else NAME=VALUE
			name = launches(args[i], args[i+1:])
		}
	}
	return name
}

// launches returns path as a launcher, "" if it is none.
func launches(path string, args []string) string {
	name := baseName(path)
	words, ok := launchers[name]
	if !ok {
		return ""
	}
	if words == nil {
		return name
	}
	for _, a := range args { // an option before the subcommand may have a value
		if slices.Contains(words, a) {
			return name + " " + a
		}
	}
	return ""
}

// baseName returns the name of a program as it is in the tables.
func baseName(path string) string {
	name := strings.ToLower(filepath.Base(path))
	return strings.TrimSuffix(name, filepath.Ext(name))
}
