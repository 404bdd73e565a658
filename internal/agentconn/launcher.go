package agentconn

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// launchers are programs that search the current folder for the program to run,
// or apply that folder's settings first. The values are the subcommands that do
// so; nil stands for all subcommands.
var launchers = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "uvx": nil, "pipx": nil, "corepack": nil,
	"pnpm": nil, "yarn": nil, "yarnpkg": nil, // they also run programs of the folder by name alone
	"bun": {"x", "run"}, "deno": {"run", "task", "x"},
	"npm": {"exec", "x", "run", "run-script", "start"}, "node": {"--run"},
	"uv": {"run", "tool"}, "poetry": {"run"}, "pipenv": {"run"}, "hatch": {"run"}, "pdm": {"run"}, "rye": {"run"},
	"mise": {"exec", "x", "run"}, "volta": {"run"},
}

// folderLaunchers are programs that apply settings of the current folder, such as
// bunfig.toml, before they run a file in another one, or that run what a file of the
// current folder names. Their values are as in launchers.
var folderLaunchers = map[string][]string{
	"bun": nil, "deno": nil, "tsx": nil, "ts-node": nil,
	"docker-compose": nil, "podman-compose": nil, "docker": {"compose"}, "podman": {"compose"},
	"nix-shell": nil, "nix": {"run", "develop", "shell"}, "devbox": {"run", "shell"}, "pixi": {"run", "exec"},
	"make": nil, "just": nil, "go": {"run", "tool"}, "cargo": {"run"}, "dotnet": {"run", "tool"}, "bundle": {"exec"},
}

// wrappers are programs that run another program named in their arguments.
// Shells are not included, because they run text in a language of their own.
var wrappers = []string{
	"env", "nice", "nohup", "timeout", "gtimeout", "time", "setsid", "stdbuf", "ionice", "chrt", "taskset", "numactl", "choom", "prlimit",
	"sudo", "doas", "runuser", "setpriv", "chroot", "unshare", "nsenter", "systemd-run", "systemd-inhibit", "caffeinate", "arch", "flock", "xargs",
	"strace", "ltrace", "unbuffer", "chronic", "xvfb-run", "dbus-run-session", "dotenv", "direnv", "busybox", "toybox",
}

// wrapped returns the arguments of a command. For a wrapper, it splits the
// texts that "env -S" would split into words.
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

// splitOption matches the options of env that split text. The text may begin in
// the same argument.
var splitOption = regexp.MustCompile(`^(-[A-Za-z0]*S|--split-string=)`)

// launcher returns the launcher that a command uses, "" if there is none. After
// a wrapper it checks every argument, because which options take a value
// depends on the wrapper's version. At worst, an option's value that equals a
// launcher's name causes an unnecessary error. inFolder is true if the command starts
// in the folder; folderLaunchers count only then.
func launcher(path string, args []string, inFolder bool) string {
	name := launches(path, args, inFolder)
	if !slices.Contains(wrappers, baseName(path)) {
		return name
	}
	for i := 0; i < len(args) && name == ""; i++ {
		if variable, _, ok := strings.Cut(args[i], "="); !ok || strings.Contains(variable, "/") { // skip NAME=VALUE
			name = launches(args[i], args[i+1:], inFolder)
		}
	}
	return name
}

// launches returns the name of the launcher, with its subcommand, if path is
// one. Otherwise it returns "".
func launches(path string, args []string, inFolder bool) string {
	name := listed(launchers, path, args)
	if name == "" && inFolder {
		name = listed(folderLaunchers, path, args)
	}
	return name
}

// listed returns the name of a program, with its subcommand, if programs contains it.
// Otherwise it returns "".
func listed(programs map[string][]string, path string, args []string) string {
	name := baseName(path)
	words, ok := programs[name]
	switch {
	case !ok:
		return ""
	case words == nil:
		return name
	}
	for _, a := range args { // options with values may precede the subcommand
		if slices.Contains(words, a) {
			return name + " " + a
		}
	}
	return ""
}

// baseName returns the name of a program in the form of the tables above.
func baseName(path string) string {
	name := strings.ToLower(filepath.Base(path))
	return strings.TrimSuffix(name, filepath.Ext(name))
}
