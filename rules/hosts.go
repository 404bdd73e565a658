package rules

import (
	"path"
	"slices"
	"strings"
)

// hosts are commands that run other commands. Their arguments or their input
// name the command to run. A rule that allowed them with any arguments would
// therefore allow every command.
var hosts = strings.Fields(`
	. ash at awk batch bash builtin bunx busybox chroot chrt command coproc crontab csh dash dc deno doas docker
	ed elixir emacs env erl eval ex exec expect fakeroot fd fdfind find fish flock gawk gdb git-shell gnuplot groovy guile
	hyperfine iex ionice irb java jrunscript jshell julia ksh ld.so lldb ltrace lua m4 man mariadb mawk mongosh more mosh mysql
	less nano nerdctl nice node nohup npx nsenter nu nvim ocaml osascript parallel perf perl php pipx pkexec pnpx podman
	powershell psql pwsh python python2 python3 racket rlwrap rsync Rscript R ruby runuser sbcl scp screen script sed setarch
	setpriv setsid sftp sg sh socat source sqlite3 ssh sshpass stdbuf strace su sudo swipl systemd-run tar taskset tclsh tcsh
	telnet time timeout tmux trap ts-node tsx unshare uvx valgrind vi view vim watch xargs xterm yash youtube-dl yt-dlp zip zsh`)

// hostCommands maps commands with subcommands to the subcommands that run other
// commands. An allow rule whose pattern ends in * must name a subcommand that
// is not listed.
var hostCommands = map[string][]string{
	"bun":   {"x", "create", "exec", "repl"},
	"cargo": {"xtask", "install", "rustc", "rustdoc"},
	"gh":    {"alias", "auth", "config", "codespace", "cs", "ext", "extension", "extensions"},
	"git": {"bisect", "citool", "clone", "config", "credential", "daemon", "difftool", "filter-branch", "filter-repo", "for-each-repo", "gui", "hook",
		"imap-send", "instaweb", "interpret-trailers", "maintenance", "merge-index", "mergetool", "p4", "rebase", "receive-pack", "remote-ext", "remote-fd",
		"scalar", "send-email", "shell", "submodule", "svn", "upload-archive", "upload-pack", "web--browse"},
	"go":      {"env", "generate", "run", "tool"}, // env -w stores settings for every later command
	"kubectl": {"attach", "config", "debug", "exec", "kustomize", "plugin", "run"},
	"npm":     {"c", "config", "create", "exec", "explore", "init", "innit", "set", "x"},
	"pnpm":    {"c", "config", "create", "dlx", "exec", "set"},
	"poetry":  {"config", "run", "self", "shell"},
	"uv":      {"run", "tool"},
	"yarn":    {"config", "create", "dlx", "exec", "node", "plugin", "policies", "set"},
}

// scriptCommands maps commands to the subcommands whose next word names the
// program or the script that runs. An allow rule whose pattern ends in * must
// name that word, too.
var scriptCommands = map[string][]string{
	"bun":  {"run"},
	"yarn": {"run"},
}

// writerCommands is like hostCommands, for two other groups of subcommands:
// those that write to any file that their arguments name, and those that
// install programs.
var writerCommands = map[string][]string{
	"bun":     {"build"},
	"git":     {"bundle", "checkout-index", "fast-import", "index-pack", "mailinfo", "mailsplit", "merge-file", "pack-objects", "worktree"},
	"go":      {"install"},
	"kubectl": {"cp"},
}

// writers are commands that seem only to read but write to any file that their
// options name, such as to a file that a shell runs at startup.
var writers = strings.Fields("7z aria2c bsdtar cpio csplit curl gpg http https openssl split tcpdump uniq unzip wget xh xxd")

// hostOptions maps commands, and subcommands, to the options that run a
// command, write to a file, or name a folder or a configuration with other
// commands. A rule whose pattern ends in * does not allow a command with such
// an option.
var hostOptions = map[string][]string{
	"ack":    {"--pager", "--output"},
	"ag":     {"--pager"},
	"bat":    {"--pager"},
	"bun":    {"--preload", "--require", "--import", "--config", "--cwd", "--outfile", "--outdir", "--reporter-outfile", "--coverage-dir", "-c", "-r"},
	"cargo":  {"--config", "--manifest-path", "--target-dir", "--artifact-dir", "--out-dir", "--lockfile-path", "--logfile", "-C", "-Z"},
	"ctags":  {"--options", "-f", "-o"},
	"diff3":  {"--diff-program"},
	"eslint": {"--config", "--format", "--output-file", "--parser", "--plugin", "--resolve-plugins-relative-to", "--rulesdir", "--cache-file", "--cache-location", "-c", "-f", "-o"},
	"gh":     {"--output", "--dir", "-D", "-O"},
	"git": {"--config", "--exec", "--exec-path", "--ext-diff", "--open-files-in-pager", "-O", "--output", "--output-directory",
		"--receive-pack", "--template", "--textconv", "--upload-pack"},
	"git apply":        {"--unsafe-paths"},
	"git archive":      {"-o"},
	"git bugreport":    {"-o"},
	"git cherry-pick":  {"--strategy"}, // git runs the program git-merge-STRATEGY
	"git diagnose":     {"-o"},
	"git fast-export":  {"--export-marks"},
	"git format-patch": {"-o"},
	"git gc":           {"--expire-to"},
	"git init":         {"--separate-git-dir"},
	"git merge":        {"--strategy", "-s"},
	"git pull":         {"--strategy", "-s"},
	"git read-tree":    {"--index-output"},
	"git repack":       {"--expire-to", "--filter-to"},
	"git revert":       {"--strategy"},
	"go": {"--exec", "--toolexec", "--vettool", "--fixtool", "--ldflags", "--gccgoflags", "--gcflags", "--asmflags", "--overlay", "--modfile", "--pkgdir", "--C",
		"--o", "--outputdir", "--coverprofile", "--cpuprofile", "--memprofile", "--blockprofile", "--mutexprofile", "--trace", "--testlogfile", "--gocoverdir",
		"--fuzzcachedir", "--debug-actiongraph", "--debug-trace", "--debug-runtime-trace"},
	"gradle":   {"--init-script", "--build-file", "--settings-file", "--project-dir", "--include-build", "-D", "-I", "-b", "-c", "-p"},
	"iconv":    {"--output", "-o"},
	"jest":     {"--config", "--coverage-directory", "--env", "--global-setup", "--output-file", "--reporters", "--resolver", "--root-dir", "--runner", "--test-runner", "--transform", "-c"},
	"kubectl":  {"--kubeconfig", "--output-directory", "--profile-output", "--cache-dir"}, // the kubeconfig names programs that log in
	"make":     {"--directory", "--eval", "--file", "--include-dir", "--makefile", "-C", "-E", "-I", "-f"},
	"mvn":      {"--file", "--settings", "--toolchains", "--log-file", "-D", "-f", "-l", "-s", "-t"},
	"mypy":     {"--config-file", "--python-executable", "--junit-xml", "--cache-dir"},
	"npm":      {"--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig", "--git", "-C"},
	"pnpm":     {"--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig", "--dir", "-C"},
	"poetry":   {"--directory", "--project", "--output", "-C", "-P", "-o"},
	"prettier": {"--config", "--plugin", "--cache-location"},
	"pytest":   {"--rootdir", "--confcutdir", "--basetemp", "--junit-xml", "--log-file", "--override-ini", "-c", "-o", "-p"},
	"rg":       {"--pre", "--hostname-bin"},
	"ruff":     {"--config", "--output-file", "--cache-dir", "-o"},
	"sdiff":    {"--diff-program", "--output", "-o"},
	"shuf":     {"--output", "-o"},
	"sort":     {"--compress-program", "--output", "-o"},
	"tree":     {"-o"},
	"tsc": {"--outdir", "--outfile", "--declarationdir", "--tsbuildinfofile", "--project", "--generatetrace", "--generatecpuprofile", "--build",
		"--p", "--b"},
	"uv":     {"--python", "--output-file", "--directory", "--project", "--config-file", "-o", "-p"},
	"vitest": {"--config", "--coverage.customprovidermodule", "--coverage.reportsdirectory", "--dir", "--output-file", "--reporter", "--root", "-c", "-r"},
	"yarn":   {"--script-shell", "--node-options", "--cwd", "--use-yarnrc", "--modules-folder", "--cache-folder"},
}

// sameAs maps other names of commands to the names in the tables above.
var sameAs = map[string]string{"gmake": "make", "gradlew": "gradle", "mvnw": "mvn"}

// unabbreviated are the commands that accept no abbreviations of their long
// options. Some of their options have parts, such as --outputFile.json.
var unabbreviated = []string{"bun", "eslint", "jest", "prettier", "ruff", "uv", "vitest"}

// tableName returns the name of a command in the tables of this file.
func tableName(command string) string {
	name := path.Base(command)
	if same := sameAs[name]; same != "" {
		return same
	}
	return name
}

// runsOthers reports whether a word after the first n words of a command may
// make it run another command or write to a file.
func runsOthers(words []string, n int) bool {
	name := tableName(words[0])
	options := hostOptions[name]
	if len(words) > 1 {
		options = slices.Concat(options, hostOptions[name+" "+words[1]])
	}
	for _, w := range words[n:] {
		option, _, _ := strings.Cut(w, "=")
		if slices.ContainsFunc(options, func(o string) bool { return isOption(name, option, o) }) {
			return true
		}
		switch {
		case name == "git" && strings.Contains(w, "::"):
			return true // a transport that is a command
		case name == "make" && strings.Contains(w, "="):
			return true // sets a variable, such as SHELL
		case name == "gh" && w == "--":
			return true // options for git follow
		case name == "pnpm" && strings.HasPrefix(w, "--config."):
			return true // sets a setting, such as script-shell
		case name == "tsc" && strings.HasPrefix(w, "@"):
			return true // a file with further options
		}
	}
	return false
}

// isOption reports whether word w may be the option of command name. A short
// option may be combined with others in one word, and a long option may be
// abbreviated or written with other dashes and capitals. Options of go and tsc
// have one or two dashes and are never abbreviated.
func isOption(name, w, option string) bool {
	switch {
	case name == "go": // flags of the test binary may begin with test.
		return strings.HasPrefix(w, "-") && strings.TrimPrefix(strings.TrimLeft(w, "-"), "test.") == strings.TrimLeft(option, "-")
	case name == "tsc":
		return strings.HasPrefix(w, "-") && plainOption(w) == plainOption(option)
	case len(option) == 2:
		return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, option[1:])
	}
	if slices.Contains(unabbreviated, name) {
		return strings.HasPrefix(w, "--") && strings.HasPrefix(plainOption(w)+".", plainOption(option)+".")
	}
	return len(w) > 2 && strings.HasPrefix(w, "--") && strings.HasPrefix(plainOption(option), plainOption(w))
}

// plainOption returns the name of a long option in lower case and without
// dashes.
func plainOption(w string) string { return strings.ToLower(strings.ReplaceAll(w, "-", "")) }

// checkWildcard returns why no rule may allow a pattern that ends in *, or ""
// if a rule may.
func checkWildcard(p commandPattern) string {
	if len(p.words) == 0 {
		return "it would allow every command"
	}
	name := tableName(p.words[0])
	if slices.Contains(hosts, name) || strings.HasPrefix(name, "python") || strings.HasPrefix(name, "ruby") {
		return name + " runs the commands that its arguments name, so the rule would allow every command"
	}
	if slices.Contains(writers, name) {
		return name + " writes its input to any file that its arguments name"
	}
	subs, has := hostCommands[name]
	if !has {
		return ""
	}
	if len(p.words) < 2 || strings.HasPrefix(p.words[1], "-") || strings.HasPrefix(p.words[1], "+") {
		return name + " has subcommands and options that run other commands; name the subcommand first, such as " + name + " " + example(name) + " *"
	}
	is := func(sub string) bool { return isSubcommand(name, p.words[1], sub) }
	named := len(p.words) > 2 && !strings.HasPrefix(p.words[2], "-")
	switch {
	case slices.ContainsFunc(subs, is), !named && slices.ContainsFunc(scriptCommands[name], is):
		return name + " " + p.words[1] + " runs the commands that its arguments name, so the rule would allow every command"
	case slices.ContainsFunc(writerCommands[name], is):
		return name + " " + p.words[1] + " writes to any file that its arguments name"
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
