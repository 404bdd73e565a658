package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/confine"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/testcache"
)

// TestMain lets this test program be the bridge of a sandbox.
func TestMain(m *testing.M) {
	bridge.Main()
	confine.Main()
	if len(os.Args) > 1 && os.Args[1] == keyRole {
		printKey()
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == mountRole {
		mountAndCheck(os.Args[2:])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == spellRole {
		mountAndCompare(os.Args[2:])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == renameRole {
		if os.Rename(os.Args[2], os.Args[3]) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == nixRole {
		printNix(os.Args[2], os.Args[3], os.Args[4])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == socketRole {
		printSockets()
		os.Exit(0)
	}
	os.Exit(testcache.Main{M: m}.Run())
}

// world is a home directory with a project in it.
type world struct{ home, project, socket string }

func newWorld(t *testing.T) world {
	t.Helper()
	return newWorldFor(t, Check(t.Context()))
}

// newWorldFor is newWorld for a sandbox that cannot be made because of err, or
// can if err is nil.
func newWorldFor(t *testing.T, err error) world {
	t.Helper()
	if err != nil {
		if testing.Short() { // make check needs only Go
			t.Skip(err)
		}
		t.Fatal(err)
	}
	root := real(t.TempDir())
	w := world{filepath.Join(root, "home"), filepath.Join(root, "home", "code", "project"), filepath.Join(root, "s")}
	for _, dir := range []string{w.project, w.socket, filepath.Join(w.home, ".ssh"), filepath.Join(w.home, "code", "other"), filepath.Join(w.home, ".agent", "state")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{".ssh/id": "secret", "code/other/file": "secret", ".agent/settings": "settings", ".agent/state/known": "state", "code/project/file": "work"} {
		if err := os.WriteFile(filepath.Join(w.home, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w world) box(script string) Box {
	return Box{
		Dir: w.project, Program: "/bin/sh", Args: []string{"-c", script}, Env: []string{"HOME=" + w.home, "PATH=" + os.Getenv("PATH")}, Socket: w.socket,
		State: []string{filepath.Join(w.home, ".agent/state")}, Read: []string{filepath.Join(w.home, ".agent/settings")}, Private: []string{filepath.Join(w.home, ".agent")},
	}
}

// accepts checks for which project directories a box can be made; for the others
// it must be refused as exposing something.
func accepts(t *testing.T, b Box, want map[string]bool) {
	t.Helper()
	for dir, accepted := range want {
		b.Dir = dir
		_, _, _, err := b.Command()
		if _, refused := errors.AsType[*ExposedError](err); refused == accepted || accepted && err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// run runs a box and returns what it prints and its exit code.
func run(t *testing.T, b Box) (string, int) {
	t.Helper()
	path, args, env, err := b.Command()
	if err != nil {
		t.Fatal(err)
	}
	return output(t, proc.Command{Path: path, Args: args, Env: env, Dir: b.Dir, Boxed: true})
}

// output runs a command and returns what it prints and its exit code.
func output(t *testing.T, c proc.Command) (string, int) {
	t.Helper()
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.CloseStdin()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if tail := p.StderrTail(); tail != "" {
		t.Log(tail)
	}
	return string(out), st.Code
}

func TestSandboxShowsOnlyTheProjectAndTheAgentsOwnState(t *testing.T) {
	w := newWorld(t)
	b := w.box(`
		cat file; echo more >> file && echo wrote
		cat $HOME/.agent/state/known $HOME/.agent/settings; echo
		echo new > $HOME/.agent/state/new && echo kept
		echo x > $HOME/.agent/settings || echo no settings
		echo x > $HOME/.agent/other && echo dropped
		cat $HOME/.ssh/id $HOME/code/other/file || echo no secret
		ls -A $HOME $HOME/code
		echo x > /usr/x || echo no usr
		echo x > /x || echo no root
		touch /tmp/x && echo tmp
	`)
	out, code := run(t, b)
	want := "workwrote\nstatesettings\nkept\nno settings\ndropped\nno secret\n" + w.home + ":\n.agent\ncode\n\n" + w.home + "/code:\nproject\nno usr\nno root\ntmp\n"
	if out != want || code != 0 {
		t.Errorf("exit code %d, output\n%s\nwant\n%s", code, out, want)
	}
	for path, want := range map[string]string{"code/project/file": "workmore\n", ".agent/state/new": "new\n", ".agent/settings": "settings"} {
		if got, err := os.ReadFile(filepath.Join(w.home, path)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.home, ".agent/other")); err == nil {
		t.Error("the agent wrote beside its state")
	}
}

// A directory bin of the PATH, outside of the home directories, can be on a disk
// with other things than an installation.
func TestSandboxShowsOnlyTheInstallationBesideADirectoryOfThePath(t *testing.T) {
	w := newWorld(t)
	disk := filepath.Join(filepath.Dir(w.home), "disk")
	for _, file := range []string{"bin/tool", "lib/part", "other/file", "src/project/file"} {
		path := filepath.Join(disk, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := w.box("cd " + disk + " && find . -type f | sort")
	b.Env = []string{"HOME=" + w.home, "PATH=" + filepath.Join(disk, "bin") + ":" + os.Getenv("PATH")}
	if out, _ := run(t, b); out != "./bin/tool\n./lib/part\n" {
		t.Errorf("in the sandbox are:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(disk, "VERSION"), []byte("go1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, b); out != "./VERSION\n./bin/tool\n./lib/part\n./src/project/file\n" {
		t.Errorf("with an installation of Go, in the sandbox are:\n%s", out)
	}
}

// Package managers keep some credentials beside the programs that they install.
func TestCredentialsOfPackageManagersAreNotInTheSandbox(t *testing.T) {
	w := newWorld(t)
	secret := []string{".local/share/uv/credentials/credentials.toml", ".npm-global/etc/npmrc", ".nvm/versions/node/v24.1.0/etc/npmrc", ".local/share/mise/installs/node/24.1.0/etc/npmrc"}
	shown := []string{".local/share/uv/tools/tool", ".nvm/versions/node/v24.1.0/bin/node"}
	script := "cd && cat"
	for _, file := range append(slices.Clone(secret), shown...) {
		path := filepath.Join(w.home, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(filepath.Base(file)+" "), 0o600); err != nil {
			t.Fatal(err)
		}
		script += " " + file
	}
	script += " 2>/dev/null"
	if out, _ := run(t, w.box(script)); out != "tool node " {
		t.Errorf("in the sandbox are %q", out)
	}
	if CheckFiles() == nil {
		if out, _ := runConfined(t, w.confined(t, script)); out != "tool node " {
			t.Errorf("in the sandbox of files are %q", out)
		}
	}
}

// An agent that has as many descriptors under way, or as many processes, as it
// may must leave some for the bridges of other sandboxes and for the server.
func TestAgentsLimitsAreBelowThoseOfTheServer(t *testing.T) {
	w := newWorld(t)
	for name, limit := range map[string]int{"open files": unix.RLIMIT_NOFILE, "processes": unix.RLIMIT_NPROC} {
		var ours unix.Rlimit
		if err := unix.Getrlimit(limit, &ours); err != nil {
			t.Fatal(err)
		}
		if ours.Max == unix.RLIM_INFINITY {
			ours.Max = 100_000
			if err := unix.Prlimit(0, limit, &ours, nil); err != nil {
				t.Fatal(err)
			}
		}
		most := ours.Max - ours.Max/4
		// The bridge lowers the limit just after the agent has started.
		out, _ := run(t, w.box(fmt.Sprintf(`limit() { while read -r line; do case $line in "Max %[1]s "*) set -- ${line#"Max %[1]s"}; echo $2;; esac; done < /proc/self/limits; }
			i=0; while [ $i -lt 2000 ] && [ $(limit) -gt %[2]d ]; do i=$((i+1)); done; limit`, name, most)))
		if n, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64); err != nil || n > most {
			t.Errorf("the limit of %s in the sandbox is %q, outside %d", name, out, ours.Max)
		}
	}
}

func TestSandboxHasNoNetworkAndNoOtherProcesses(t *testing.T) {
	w := newWorld(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := strings.Replace(ln.Addr().String(), ":", "/", 1)
	b := w.box("")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	b.Program, b.Args = bash, []string{"-c", `
		exec 3<>/dev/tcp/` + at + ` && echo connected
		for d in /proc/[0-9]*; do tr '\0' ' ' < $d/cmdline; echo; done 2>/dev/null | grep -c . 
		ls -A /run /run/runnel
		unshare -Ur true 2>/dev/null && echo namespace
		kill -9 1 2>/dev/null; echo alive
		env | grep -c RUNNEL_
		exit 7
	`}
	out, code := run(t, b)
	if code != 7 || strings.Contains(out, "connected") || strings.Contains(out, "namespace") || !strings.Contains(out, "alive\n0\n") {
		t.Errorf("exit code %d, output\n%s", code, out)
	}
	if !strings.Contains(out, "/run:\nrunnel\n\n/run/runnel:\nbridge\negress\n") {
		t.Errorf("/run has more than ours:\n%s", out)
	}
}

// renameRole makes this test program rename a path. Unlike mv, it copies nothing.
const renameRole = "rename"

func TestSandboxKeepsSettingsOfRepositories(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+w.home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	library, tree := filepath.Join(w.home, "library"), filepath.Join(w.home, "code", "tree")
	git(w.home, "init", "-q", library)
	git(library, "commit", "-q", "--allow-empty", "-m", "a")
	git(w.project, "init", "-q")
	git(w.project, "submodule", "-q", "add", library, "sub")
	git(w.project, "submodule", "-q", "add", library, "logs")
	git(w.project, "commit", "-q", "-am", "a")
	if err := os.RemoveAll(filepath.Join(w.project, ".git/hooks")); err != nil {
		t.Fatal(err)
	}
	git(w.project, "worktree", "add", "-q", tree)
	git(w.project, "worktree", "add", "-q", filepath.Join(w.home, "code", "refs"))
	attack := `
		for f in "$1"/hooks/post-commit "$1"/config "$1"/config.worktree "$1"/modules/sub/hooks/x "$1"/modules/sub/config "$1"/worktrees/tree/config.worktree \
			"$1"/modules/logs/hooks/x "$1"/modules/logs/config "$1"/worktrees/refs/config.worktree; do
			{ echo x >> "$f"; } 2>/dev/null && echo "wrote $f"
		done
		mv "$1" "$1".away 2>/dev/null && echo moved
		for d in modules/sub modules worktrees/tree worktrees; do # and not what is read-only in them
			"$2" ` + renameRole + ` "$1/$d" "$1/away" && echo "moved $d"
		done
		rm -rf "$1"/hooks "$1"/config 2>/dev/null
		ls -d "$1"/hooks "$1"/config
		git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m b && echo committed
		[ ! -d sub ] || [ ! -e sub/.git ] || git -C sub -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m b || echo not committed in the submodule
		mv "$1/modules/sub/HEAD" "$1/modules/sub/away" 2>/dev/null # so that the next sandbox does not find a repository there
		echo x > "$1/modules/HEAD"
	`
	common := filepath.Join(w.project, ".git")
	want := filepath.Join(common, "config") + "\n" + filepath.Join(common, "hooks") + "\ncommitted\n"
	for _, dir := range []string{w.project, tree} {
		b := w.box("")
		b.Dir, b.Args, b.Read = dir, []string{"-c", attack, "sh", common, self}, append(b.Read, self)
		if out, code := run(t, b); out != want || code != 0 {
			t.Errorf("in %s: exit code %d, output\n%s\nwant\n%s", dir, code, out, want)
		}
	}

	forged := filepath.Join(w.home, "code", "forged") // a .git file that no git has made
	if err := os.MkdirAll(forged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(forged, ".git"), []byte("gitdir: "+filepath.Join(common, "worktrees", "tree")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.box("ls " + common)
	b.Dir = forged
	if out, code := run(t, b); code == 0 {
		t.Errorf("the forged link shows another repository:\n%s", out)
	}
}

func TestSandboxRefusesExposedDirectories(t *testing.T) {
	w := newWorld(t)
	data := filepath.Join(w.home, "code", "data")
	for _, dir := range []string{"/", "/etc", "/usr/share", "/proc", w.home, filepath.Dir(w.home), filepath.Join(w.home, ".ssh"), filepath.Join(w.home, ".ssh", "below"), filepath.Join(w.home, ".agent"), filepath.Join(w.home, ".agent", "state"), data, filepath.Join(w.home, "code")} {
		b := w.box("true")
		b.Dir, b.Protected = dir, []string{data}
		_, _, _, err := b.Command()
		if _, ok := errors.AsType[*ExposedError](err); !ok {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := os.Symlink(filepath.Join(w.home, ".agent"), filepath.Join(w.home, "code", "other", "data")); err != nil {
		t.Fatal(err)
	}
	own := w.box("true") // an agent could replace the link, and the next server would use another data directory
	own.Dir, own.Protected = filepath.Join(w.home, "code", "other"), []string{filepath.Join(w.home, "code", "other", "data")}
	if _, _, _, err := own.Command(); err == nil {
		t.Error("a directory with a link to a protected path was accepted")
	}
	link := filepath.Join(w.home, "code", "link")
	if err := os.Symlink(filepath.Join(w.home, ".ssh"), link); err != nil {
		t.Fatal(err)
	}
	b := w.box("true")
	b.Dirs = []string{link}
	if _, _, _, err := b.Command(); err == nil {
		t.Error("a further directory that leads to a protected path was accepted")
	}
}

// Runnel itself runs programs of the PATH and of the agent, follows the user's
// settings of git, and has the settings of the server's git in its cache. What
// an agent wrote there would run outside of the sandbox.
func TestSandboxRefusesDirectoriesThatRunnelRunsOrObeys(t *testing.T) {
	w := newWorld(t)
	in := func(elem ...string) string { return filepath.Join(append([]string{w.home}, elem...)...) }
	t.Setenv("XDG_CACHE_HOME", in("code", "cache"))
	t.Setenv("XDG_CONFIG_HOME", in("code", "settings"))
	t.Setenv("PATH", os.Getenv("PATH")+":"+in("code", "tools", "bin")+":"+in("profile", "bin")+":"+w.home)
	agent := in("code", "agents", "node_modules", "agent", "bin", "agent")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(agent), in("code", "dotfiles"), in("code", "shell"), in("code", "settings of agents", "agent"), in("code", "skill"), in("code", "otheragent", "skills"), in("code", "profiles"), in("code", "tools", "bin", "below"), in("code", "toolsnot", "else")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{agent, in("code", "dotfiles", "gitconfig"), in("code", "shell", "profile")} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{in(".profile"): "code/shell/profile", in(".gitconfig"): "code/dotfiles/gitconfig", in("profile"): in("code", "profiles", "now"), in("code", "profiles", "now"): "../toolsnot",
		in("code", "otheragent", "settings.json"): "../settings of agents/agent/settings.json", in("code", "otheragent", "skills", "mine"): "../../skill"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	command := func(dir string, further ...string) error {
		b := w.box("true")
		b.Dir, b.Dirs, b.Program, b.Withheld, b.Protected = dir, further, agent, []string{in("code", "otheragent")}, []string{in(".data", "runnel")}
		_, _, _, err := b.Command()
		return err
	}
	for _, dir := range []string{w.project, in("code", "toolsnot", "else"), in("code", ".hidden"), in(".data", "runnel-worktrees", "one")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := command(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, dir := range []string{
		in("code", "cache"), in("code", "cache", "runnel"), in("code", "cache", "runnel", "git"), in(".cache"), in(".cache", "runnel", "git", "below"),
		in("code", "settings"), in("code", "settings", "git"), in(".config", "git"), in("code", "dotfiles"), in("code", "otheragent", "below"),
		in("code", "profiles"), in("code", "toolsnot"), in("code", "tools"), in("code", "tools", "bin"), in("code", "tools", "bin", "below"), in(".nvm", "versions"), in(".local"), in(".colima", "default"), in(".config", "Code"), in(".vscode", "extensions"), in(".config", "autostart"),
		in("code", "agents"), in("code", "agents", "node_modules", "other"), filepath.Dir(agent), in("code", "settings of agents"), in("code", "settings of agents", "agent"), in("code", "skill"),
		in(".cache", "tool", "pkg"), in(".npm", "_npx"), in("miniconda3", "bin"), in(".agents", "skills"), in("node_modules"), in(".node_modules", "x"), in("code", "node_modules"), in("bin"), in(".program-that-nobody-knows", "below"), in(".data", "runnel-worktrees"), in(".data", "other"), in("code", "shell"), in("go", "bin"), in("go", "pkg", "mod"), filepath.Dir(self),
	} {
		for _, err := range []error{command(dir), command(w.project, dir)} {
			if _, ok := errors.AsType[*ExposedError](err); !ok {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
}

// The PATH of a package manager beside the system, such as Homebrew, has links to
// the programs. Git runs further programs, and has libraries, beside its own.
func TestSandboxRefusesTheInstallationsOfProgramsThatRunnelRuns(t *testing.T) {
	w := newWorld(t)
	brew := filepath.Join(filepath.Dir(w.home), "linuxbrew", "prefix") // another user's home, as that of Homebrew
	tools := filepath.Join(w.home, "code", "tools")
	for _, dir := range []string{
		filepath.Join(brew, "bin"), filepath.Join(brew, "Cellar", "git", "2", "bin"), filepath.Join(brew, "lib", "node_modules", "other"), filepath.Join(brew, "work"),
		filepath.Join(tools, "bin"), filepath.Join(tools, "git", "bin"), filepath.Join(tools, "git", "libexec", "git-core"), filepath.Join(tools, "lib"),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(brew, "bin", "git"): filepath.Join(brew, "Cellar", "git", "2", "bin", "git"), filepath.Join(tools, "bin", "bwrap"): filepath.Join(tools, "git", "bin", "bwrap")} {
		if err := os.WriteFile(to, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Join(brew, "bin")+":"+filepath.Join(tools, "bin"))
	accepts(t, w.box("true"), map[string]bool{
		w.project: true, filepath.Join(brew, "work"): true, filepath.Join(tools, "lib"): true,
		filepath.Join(brew, "Cellar"): false, filepath.Join(brew, "Cellar", "git", "2"): false, filepath.Join(brew, "lib", "node_modules", "other"): false,
		filepath.Join(tools, "git"): false, filepath.Join(tools, "git", "libexec", "git-core"): false,
	})
}

// Hidden directories of the home directory can be elsewhere: behind a link, such
// as that to a repository with dotfiles, or where a variable says.
func TestSandboxRefusesHiddenDirectoriesThatAreElsewhere(t *testing.T) {
	w := newWorld(t)
	in := func(elem ...string) string { return filepath.Join(append([]string{w.home, "code"}, elem...)...) }
	for name, dir := range map[string]string{"XDG_CONFIG_HOME": in("config"), "XDG_DATA_HOME": in("data"), "XDG_STATE_HOME": in("state"), "XDG_CACHE_HOME": in("cache"), "ZDOTDIR": in("zsh")} {
		t.Setenv(name, dir)
	}
	for _, dir := range []string{in("dotfiles", "vim", "plugin"), in("dotfiles", "fish"), in("data", "runnel-worktrees", "one"), filepath.Join(w.home, ".config"), in("config"), in("other")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{filepath.Join(w.home, ".vim"): "code/dotfiles/vim", filepath.Join(w.home, ".config", "fish"): in("dotfiles", "fish"), in("config", "nvim"): "../other"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	b := w.box("true")
	b.Protected = []string{in("data", "runnel")}
	accepts(t, b, map[string]bool{
		w.project: true, in("data", "runnel-worktrees", "one"): true,
		in("dotfiles"): false, in("dotfiles", "vim", "plugin"): false, in("dotfiles", "fish"): false, in("other"): false,
		in("config", "gh"): false, in("config", "systemd", "user"): false, in("data", "applications"): false, in("data"): false, in("state", "x"): false, in("cache", "tool"): false, in("zsh"): false,
		in("data", "runnel-worktrees"): false,
	})
	if err := (Allowance{Path: in("config", "gh")}).Refuse(nil); err == nil {
		t.Error("a secret of XDG_CONFIG_HOME may be allowed")
	}
}

// Programs such as ssh do not take the home directory from HOME.
func TestSandboxRefusesSecretsInHomesThatTheEnvironmentDoesNotName(t *testing.T) {
	w := newWorld(t)
	t.Setenv("HOME", w.home)
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{account.HomeDir, "/home/another"} {
		for name, want := range map[string]bool{"": false, ".ssh": false, ".ssh/below": false, ".config/below": false, "missing": true} {
			b := w.box("true")
			b.Dir = filepath.Join(home, name)
			_, _, _, err := b.Command()
			if _, refused := errors.AsType[*ExposedError](err); refused == want {
				t.Errorf("%s: %v", b.Dir, err)
			}
		}
	}
}

// Folders for temporary files have the sockets of services of the user, such as
// a terminal multiplexer, which run the commands of every program that connects.
func TestSandboxRefusesDirectoriesOfServices(t *testing.T) {
	w := newWorld(t)
	temporary, err := os.MkdirTemp("/var/tmp", "runnel-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	t.Setenv("TMPDIR", temporary)
	services, variable, project := filepath.Join(temporary, "tmux-1000"), filepath.Join(w.home, "code", "agent"), filepath.Join(temporary, "project")
	for _, dir := range []string{services, variable, project} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("unix", filepath.Join(services, "default"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(variable, "socket"))
	t.Setenv("GNUPGHOME", filepath.Join(w.home, "code", "keys"))
	accepts(t, w.box("true"), map[string]bool{
		project: true, w.project: true, "/tmp": false, "/var/tmp": false, temporary: false, services: false, variable: false, filepath.Join(w.home, "code", "keys", "below"): false, filepath.Join(w.home, "code"): false,
	})
}

func TestSandboxIsRefusedWithoutBubblewrap(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PATH", t.TempDir())
	for _, err := range []error{Check(t.Context()), func() error { _, _, _, err := w.box("true").Command(); return err }()} {
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Fix, "install bubblewrap") && !strings.Contains(e.Fix, "bubblewrap") {
			t.Errorf("without bubblewrap: %v", err)
		}
	}
}

func TestSignalsReachTheAgent(t *testing.T) {
	w := newWorld(t)
	path, args, env, err := w.box(`trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done`).Command()
	if err != nil {
		t.Fatal(err)
	}
	p, err := proc.Start(t.Context(), proc.Command{Path: path, Args: args, Env: env, Dir: w.project, Boxed: true})
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(p.Stdout())
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.Stop(t.Context(), proc.Ladder{Interrupt: time.Minute, Terminate: -1}); err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(t.Context())
	if rest, _ := io.ReadAll(out); string(rest) != "interrupted\n" || err != nil || st.Code != 3 {
		t.Errorf("output %q, status %+v, %v", rest, st, err)
	}
}

func TestSandboxEndsWithTheAgent(t *testing.T) {
	w := newWorld(t)
	out, code := run(t, w.box(`setsid sh -c 'while :; do sleep 60; done' </dev/null >/dev/null 2>&1 & sleep 0.1; kill -9 $$`))
	if code != 128+9 {
		t.Errorf("exit code %d, output %q", code, out) // run returns only when no process is left
	}
}

func TestCopiesAreEdited(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	for text, want := range map[string]string{"a secret": "a ", "none": ""} {
		if err := os.WriteFile(filepath.Join(w.home, ".agent", "copied"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b := w.confined(t, `cat $HOME/.agent/copied 2>/dev/null; cat `+w.home+`/.agent/copied 2>/dev/null`)
		b.Copies = []string{filepath.Join(w.home, ".agent", "copied")}
		b.Edit = func(content []byte) []byte {
			before, _, ok := strings.Cut(string(content), "secret")
			if !ok {
				return nil
			}
			return []byte(before)
		}
		if out, _ := runConfined(t, b); out != want {
			t.Errorf("%s: got %q, want %q", text, out, want)
		}
	}
}
