package rules

import (
	"path"
	"slices"
	"strings"
)

// hosts are commands that run other commands, which their arguments or their
// input name. A rule that allowed them with any arguments would allow every
// command.
var hosts = strings.Fields(`
	. ash at awk batch bash builtin bunx busybox chroot chrt command coproc crontab csh dash deno doas docker
	ed emacs env eval ex exec expect fakeroot fd fdfind find fish flock gawk gdb git-shell hyperfine ionice
	ksh ld.so lldb ltrace lua man mawk mosh more less nano nerdctl nice node nohup npx nsenter nu nvim ocaml osascript
	parallel perf perl php pipx pkexec pnpx podman powershell psql pwsh python python2 python3 rlwrap rsync ruby
	runuser scp screen script sed setarch setpriv setsid sftp sg sh socat source sqlite3 ssh sshpass stdbuf strace su sudo
	systemd-run tar taskset tclsh tcsh telnet time timeout tmux trap tsx unshare uvx valgrind vi view vim watch
	xargs xterm yash zip zsh`)

// hostCommands maps commands with subcommands to the subcommands that run other
// commands. An allow rule with any arguments must name a subcommand that is not
// listed.
var hostCommands = map[string][]string{
	"bun":   {"x", "create", "exec"},
	"cargo": {"xtask"},
	"gh":    {"alias", "config", "codespace", "cs", "ext", "extension", "extensions"},
	"git": {"bisect", "citool", "clone", "config", "credential", "daemon", "difftool", "filter-branch", "for-each-repo", "gui", "hook", "instaweb",
		"mergetool", "p4", "rebase", "receive-pack", "send-email", "shell", "submodule", "svn", "upload-pack"},
	"go":      {"env", "generate", "run", "tool"}, // env -w stores settings for every later command
	"kubectl": {"config", "debug", "exec", "run"},
	"npm":     {"c", "config", "create", "exec", "explore", "init", "innit", "set", "x"},
	"pnpm":    {"config", "create", "dlx", "exec"},
	"poetry":  {"run"},
	"uv":      {"run", "tool"},
	"yarn":    {"config", "create", "dlx", "exec", "node", "plugin", "policies", "set"},
}

// writers are commands that seem only to read but write to any file that their
// options name, such as to a file that a shell runs at startup.
var writers = []string{"curl", "wget"}

// hostOptions maps commands to the options that run a command or write to a
// file. A rule with any arguments does not allow a command with such an option.
var hostOptions = map[string][]string{
	"cargo": {"--config"},
	"git": {"--config", "--exec", "--exec-path", "--ext-diff", "--open-files-in-pager", "-O", "--output", "--output-directory",
		"--receive-pack", "--template", "--textconv", "--upload-pack"},
	"go":      {"--exec", "--toolexec", "--vettool", "--fixtool", "--ldflags", "--gccgoflags", "--overlay", "--o", "--outputdir"},
	"kubectl": {"--kubeconfig"}, // the file names programs that log in
	"make":    {"--eval", "--file", "--makefile", "-E", "-f"},
	"npm":     {"--script-shell", "--node-options"},
	"pnpm":    {"--script-shell", "--node-options"},
	"rg":      {"--pre", "--hostname-bin"},
	"sort":    {"--compress-program", "--output", "-o"},
	"yarn":    {"--script-shell", "--node-options"},
}

// runsOthers reports whether a word after the first n words of a command may
// make it run another command or write to a file.
func runsOthers(words []string, n int) bool {
	name := path.Base(words[0])
	for _, w := range words[n:] {
		option, _, _ := strings.Cut(w, "=")
		for _, o := range hostOptions[name] {
			if isOption(name, option, o) {
				return true
			}
		}
		switch {
		case name == "git" && (strings.Contains(w, "::") || strings.HasPrefix(w, "-o") && slices.Contains([]string{"archive", "format-patch"}, words[1])):
			return true // a transport that is a command, or an output file
		case (name == "make" || name == "gmake") && strings.Contains(w, "="):
			return true // sets a variable, such as SHELL
		case name == "gh" && w == "--":
			return true // options for git follow
		}
	}
	return false
}

// isOption reports whether word w may be the option of command name. A short
// option may be combined with others in one word, and a long option may be
// abbreviated. Options of go have one or two dashes and are never abbreviated.
func isOption(name, w, option string) bool {
	if name == "go" {
		return strings.HasPrefix(w, "-") && strings.TrimLeft(w, "-") == strings.TrimLeft(option, "-")
	}
	if len(option) == 2 {
		return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, option[1:])
	}
	return len(w) > 2 && strings.HasPrefix(w, "--") && strings.HasPrefix(option, w)
}

// checkWildcard returns why a rule must not allow a pattern with any arguments;
// "" if it may.
func checkWildcard(p commandPattern) string {
	if len(p.words) == 0 {
		return "it would allow every command"
	}
	name := path.Base(p.words[0])
	if slices.Contains(hosts, name) || strings.HasPrefix(name, "python") || strings.HasPrefix(name, "ruby") {
		return name + " runs the commands that its arguments name, so the rule would allow every command"
	}
	if slices.Contains(writers, name) {
		return name + " writes what it gets to any file that its options name"
	}
	subs, has := hostCommands[name]
	if !has {
		return ""
	}
	if len(p.words) < 2 || strings.HasPrefix(p.words[1], "-") || strings.HasPrefix(p.words[1], "+") {
		return name + " has subcommands and options that run other commands; name the subcommand first, such as " + name + " " + example(name) + " *"
	}
	if slices.ContainsFunc(subs, func(sub string) bool { return isSubcommand(name, p.words[1], sub) }) {
		return name + " " + p.words[1] + " runs the commands that its arguments name, so the rule would allow every command"
	}
	return ""
}

// isSubcommand reports whether a word is the subcommand sub. npm also accepts
// an unambiguous prefix of a subcommand.
func isSubcommand(name, word, sub string) bool {
	return word == sub || name == "npm" && len(word) > 1 && word != "in" && strings.HasPrefix(sub, word) // npm in means npm install
}

func example(name string) string {
	if name == "git" {
		return "log"
	}
	return "test"
}
