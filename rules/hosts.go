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
	. arch ash at awk batch bash builtin bunx busybox bwrap caffeinate choom chronic chroot chrt command compgen complete coproc
	cpulimit crontab csh dash dbus-run-session dc deno direnv doas docker dotenv duckdb eatmydata ed elixir emacs emulate enable
	entr env erl eval ex exec expect faketime fakeroot fc fd fdfind find firejail fish flock fzf gawk gdb git-shell gnuplot
	groovy guile hyperfine iex ifne ionice ipython irb java jobs jrunscript jshell julia ksh ld.so less linux32 linux64 lldb
	ltrace lua m4 man mapfile mariadb mawk mongosh more mosh mysql nano nerdctl nice nix nix-shell nocorrect node noglob nohup
	npx nsenter nu numactl nvim ocaml osascript pandoc parallel pee perf perl php pipx pkexec pnpx podman powershell prlimit
	proot psql pwsh python python2 python3 racket readarray repeat rlwrap rsync Rscript R ruby run-parts runuser sbcl scp
	screen script sed setarch setpriv setsid sftp sg sh socat source sqlite3 ssh ssh-agent sshpass start-stop-daemon stdbuf
	strace su sudo swipl systemd-inhibit systemd-run tar taskset tclsh tcsh telnet time timeout tmux torify torsocks toybox trap
	ts-node tsx unbuffer unshare uvx valgrind vi view vim watch xargs xterm xvfb-run yash youtube-dl yt-dlp zip zsh`)

// evaluators are commands that shells run themselves and whose arguments may be
// names of variables. Shells run the substitutions in the subscript of such a
// name, even if the argument is quoted.
var evaluators = strings.Fields("[ getopts print printf read test unset wait")

// hostCommands maps commands with subcommands to the subcommands that run other
// commands. An allow rule whose pattern ends in * must name a subcommand that
// is not listed.
var hostCommands = map[string][]string{
	"bun":    {"x", "create", "exec", "repl"},
	"bundle": {"config", "exec", "open", "plugin"},
	"cargo":  {"xtask", "install", "rustc", "rustdoc"},
	"conda":  {"config", "run"},
	"gh":     {"alias", "auth", "config", "codespace", "cs", "ext", "extension", "extensions"},
	"git": {"archimport", "bisect", "bisect--helper", "citool", "clone", "config", "credential", "cvsexportcommit", "cvsimport", "cvsserver", "daemon",
		"difftool", "difftool--helper", "filter-branch", "filter-repo", "for-each-repo", "gui", "hook", "http-backend", "imap-send", "instaweb",
		"interpret-trailers", "maintenance", "merge-index", "mergetool", "p4", "rebase", "receive-pack", "remote-ext", "remote-fd", "scalar", "send-email",
		"shell", "submodule", "submodule--helper", "svn", "upload-archive", "upload-pack", "web--browse"},
	"go":      {"env", "generate", "run", "tool"}, // env -w stores settings for every later command
	"hatch":   {"run", "shell"},
	"helm":    {"plugin"},
	"hg":      {"bisect", "clone", "config", "extdiff", "serve", "share"},
	"jj":      {"config", "fix", "util"},
	"kubectl": {"attach", "config", "debug", "exec", "kustomize", "plugin", "run"},
	"mise":    {"exec", "run", "x"},
	"npm":     {"c", "config", "create", "exec", "explore", "init", "innit", "set", "x"},
	"pdm":     {"config", "run"},
	"pipenv":  {"run", "shell"},
	"pixi":    {"config", "exec", "run", "shell"},
	"pnpm":    {"c", "config", "create", "dlx", "exec", "set"},
	"poetry":  {"config", "run", "self", "shell"},
	"rye":     {"config", "run"},
	"uv":      {"run", "tool"},
	"volta":   {"run"},
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
	"bun": {"build"},
	"git": {"bundle", "checkout-index", "credential-cache", "credential-store", "fast-import", "index-pack", "mailinfo", "mailsplit", "merge-file",
		"pack-objects", "worktree"},
	"go":      {"install"},
	"kubectl": {"cp"},
}

// writers are commands that write to any file that their arguments name, such
// as to a file that a shell runs at startup. Some of them seem only to read.
var writers = strings.Fields(`
	7z ar aria2c bsdtar cp cpio csplit curl dd ffmpeg gpg http https install ln mv objcopy openssl patch split tcpdump tee truncate uniq unzip
	wget xh xxd`)

// loaders are commands that have options, subcommands, plugins or project files
// by which their arguments can make them run any program.
var loaders = strings.Fields(`
	ansible ansible-console ansible-playbook ant apk as aws az bazel bazelisk bpftrace brew buck buck2 c++ cabal cc clang clang++ composer
	convert ctest dart dlv dnf docker-compose doppler dotnet dpkg dune eksctl exiftool flatpak flutter ftp g++ gcc gcloud gem gfortran ghc gs
	gsutil javac just kotlinc latexmk launchctl ld ld.lld lein lerna lftp lld lualatex machinectl magick meson mill minikube mix nc ncat netcat
	ninja nmap nodemon nox nvcc nx opam openvpn packer pacman pdflatex pm2 podman-compose pre-commit pulumi rake rr rpm rustc sbt scalac scons
	service snap stack supervisorctl swift swiftc task tcc terragrunt tex tox turbo vagrant watchexec xcodebuild xcrun xelatex yum zig zypper`)

// readCommands maps further such commands to the subcommands that only read. An
// allow rule whose pattern ends in * must name one of these.
var readCommands = map[string][]string{
	"pip":       {"check", "freeze", "list", "show"},
	"systemctl": {"is-active", "is-enabled", "is-failed", "list-sockets", "list-timers", "list-unit-files", "list-units", "show", "status"},
	"terraform": {"output", "show", "validate", "version"},
}

// hostOptions maps commands, and subcommands, to the options that run a
// command, write to a file, or name a folder or a configuration with other
// commands. A rule whose pattern ends in * does not allow a command with such
// an option.
var hostOptions = map[string][]string{
	"ack":     {"--pager", "--output"},
	"ag":      {"--pager"},
	"apt":     {"--option", "--config-file", "-o", "-c"},
	"apt-get": {"--option", "--config-file", "-o", "-c"},
	"bat":     {"--pager"},
	"bun":     {"--preload", "--require", "--import", "--config", "--cwd", "--outfile", "--outdir", "--reporter-outfile", "--coverage-dir", "-c", "-r"},
	"cargo":   {"--config", "--manifest-path", "--target-dir", "--artifact-dir", "--out-dir", "--lockfile-path", "--logfile", "-C", "-Z"},
	"cmake":   {"--toolchain", "--prefix", "-P", "-E", "-C", "-D"},
	"ctags":   {"--options", "-f", "-o"},
	"diff3":   {"--diff-program"},
	"eslint": {"--config", "--format", "--output-file", "--parser", "--plugin", "--resolve-plugins-relative-to", "--rulesdir", "--cache-file", "--cache-location",
		"--init", "--inspect-config", "-c", "-f", "-o"},
	"gh": {"--output", "--dir", "-D", "-O"},
	"git": {"--config", "--exec", "--exec-path", "--ext-diff", "--open-files-in-pager", "-O", "--output", "--output-directory",
		"--receive-pack", "--template", "--textconv", "--upload-pack"},
	"git apply":        {"--unsafe-paths", "--build-fake-ancestor"},
	"git archive":      {"-o"},
	"git bugreport":    {"-o", "--suffix"},
	"git cherry-pick":  {"--strategy"}, // git runs the program git-merge-STRATEGY
	"git diagnose":     {"-o", "--suffix"},
	"git fast-export":  {"--export-marks"},
	"git format-patch": {"-o", "--suffix"}, // the suffix may contain a path
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
	"gradle": {"--init-script", "--gradle-user-home", "--project-cache-dir", "--system-prop", "--build-file", "--settings-file", "--project-dir", "--include-build",
		"-D", "-I", "-b", "-c", "-g", "-p"},
	"helm":  {"--post-renderer", "--output-dir", "--kubeconfig"},
	"hg":    {"--config", "--config-file", "--cwd", "--repository", "--output", "--tool", "--ssh", "--remotecmd", "-R", "-o", "-e", "-t"},
	"iconv": {"--output", "-o"},
	"jest": {"--cache-directory", "--config", "--coverage-directory", "--env", "--filter", "--preset", "--projects", "--setup-files", "--setup-files-after-env",
		"--snapshot-serializers", "--test-environment", "--test-results-processor", "--test-sequencer", "--global-setup", "--output-file", "--reporters", "--resolver", "--root-dir", "--runner", "--test-runner", "--transform", "-c"},
	"jj":      {"--config", "--config-file", "--config-toml", "--repository", "--tool", "-R"},
	"kubectl": {"--kubeconfig", "--output-directory", "--profile-output", "--cache-dir"}, // the kubeconfig names programs that log in
	"make":    {"--directory", "--eval", "--file", "--include-dir", "--makefile", "-C", "-E", "-I", "-f"},
	"mvn":     {"--file", "--settings", "--toolchains", "--log-file", "--define", "--global-settings", "--global-toolchains", "-D", "-f", "-l", "-s", "-t"},
	"mypy": {"--config-file", "--python-executable", "--junit-xml", "--cache-dir", "--install-types", "--any-exprs-report", "--cobertura-xml-report",
		"--html-report", "--linecount-report", "--linecoverage-report", "--lineprecision-report", "--txt-report", "--xml-report", "--xslt-html-report", "--xslt-txt-report"},
	"nm":       {"--plugin"},
	"npm":      {"--script-shell", "--node-options", "--browser", "--cache", "--editor", "--logs-dir", "--prefix", "--userconfig", "--globalconfig", "--git", "-C"},
	"pnpm":     {"--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig", "--dir", "-C"},
	"pip":      {"--log", "--python", "--cache-dir"},
	"poetry":   {"--directory", "--project", "--output", "-C", "-P", "-o"},
	"prettier": {"--config", "--plugin", "--plugin-search-dir", "--cache-location"},
	"pytest": {"--rootdir", "--confcutdir", "--basetemp", "--junit-xml", "--log-file", "--override-ini", "--debug", "--cov-config", "--cov-report", "--html",
		"--report-log", "-c", "-o", "-p"},
	"rg":        {"--pre", "--hostname-bin"},
	"ruff":      {"--config", "--output-file", "--cache-dir", "-o"},
	"sdiff":     {"--diff-program", "--output", "-o"},
	"shuf":      {"--output", "-o"},
	"sort":      {"--compress-program", "--output", "-o"},
	"svn":       {"--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-dir", "--config-option"},
	"systemctl": {"--host", "--image", "--machine", "--root", "-H", "-M"}, // -H runs ssh
	"tree":      {"-o"},
	"tsc": {"--outdir", "--outfile", "--declarationdir", "--tsbuildinfofile", "--project", "--generatetrace", "--generatecpuprofile", "--build",
		"--p", "--b"},
	"uv":     {"--python", "--output-file", "--directory", "--project", "--config-file", "-o", "-p"},
	"vitest": {"--config", "--coverage.customprovidermodule", "--coverage.reportsdirectory", "--dir", "--environment", "--pool", "--workspace", "--output-file", "--reporter", "--root", "-c", "-r"},
	"yq":     {"--split-exp", "-s"},
	"yarn":   {"--script-shell", "--node-options", "--cwd", "--use-yarnrc", "--modules-folder", "--cache-folder"},
}

// sameAs maps other names of commands to the names in the tables above.
var sameAs = map[string]string{"gmake": "make", "gradlew": "gradle", "mvnw": "mvn", "tofu": "terraform"}

// unabbreviated are the commands that accept no abbreviations of their long
// options. Some of their options have parts, such as --outputFile.json.
var unabbreviated = []string{"bun", "eslint", "jest", "prettier", "ruff", "uv", "vitest"}

// optionFiles are the commands that read options from a file named after an @.
var optionFiles = []string{"cargo", "mypy", "pytest", "ruff", "tsc"}

// tableName returns the name of a command in the tables of this file.
func tableName(command string) string {
	name := path.Base(command)
	for _, n := range []string{name, unversioned(name)} {
		if same := sameAs[n]; same != "" {
			return same
		}
		if hostCommands[n] != nil || readCommands[n] != nil || hostOptions[n] != nil {
			return n
		}
	}
	return name
}

// unversioned returns the name of a command without a version at its end, as in
// gcc-14 or lua5.4.
func unversioned(name string) string { return strings.TrimRight(name, "0123456789.-") }

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
		case (name == "gh" || name == "cmake") && w == "--":
			return true // options for git, or for the build tool, follow
		case name == "pnpm" && strings.HasPrefix(w, "--config."):
			return true // sets a setting, such as script-shell
		case slices.Contains(optionFiles, name) && strings.HasPrefix(w, "@"):
			return true // a file with further options
		case slices.Contains(evaluators, name) && strings.ContainsAny(w, "$`"):
			return true // a substitution in a subscript
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
	is := func(list []string) bool {
		return slices.Contains(list, name) || slices.Contains(list, unversioned(name))
	}
	if is(hosts) || strings.HasPrefix(name, "python") || strings.HasPrefix(name, "ruby") {
		return name + " runs the commands that its arguments name, so the rule would allow every command"
	}
	if is(writers) {
		return name + " writes its input to any file that its arguments name"
	}
	if is(loaders) {
		return name + " has arguments that make it run any program"
	}
	if read, has := readCommands[name]; has {
		if len(p.words) < 2 || !slices.Contains(read, p.words[1]) {
			return name + " has subcommands that run programs or change the system; with any arguments, only these can be allowed: " + strings.Join(read, ", ")
		}
		return ""
	}
	subs, has := hostCommands[name]
	if !has {
		return ""
	}
	if len(p.words) < 2 || strings.HasPrefix(p.words[1], "-") || strings.HasPrefix(p.words[1], "+") {
		return name + " has subcommands and options that run other commands; name the subcommand first, such as " + name + " " + example(name) + " *"
	}
	isSub := func(sub string) bool { return isSubcommand(name, p.words[1], sub) }
	named := len(p.words) > 2 && !strings.HasPrefix(p.words[2], "-")
	switch {
	case slices.ContainsFunc(subs, isSub), !named && slices.ContainsFunc(scriptCommands[name], isSub):
		return name + " " + p.words[1] + " runs the commands that its arguments name, so the rule would allow every command"
	case slices.ContainsFunc(writerCommands[name], isSub):
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
