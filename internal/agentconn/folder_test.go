package agentconn

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// script creates an executable file, and its parent folders.
func script(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := testexec.Write(path, "#!/bin/sh\nexit 0\n"); err != nil {
		t.Fatal(err)
	}
}

// project creates a home directory and a project in it, and returns their real
// paths.
func project(t *testing.T) (home, dir string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	return home, dir
}

func TestLaunchersAreRefusedInUntrustedFolders(t *testing.T) {
	_, dir := project(t)
	for _, c := range []struct {
		command string
		name    string // "" if the program is not a launcher
	}{
		{"/usr/bin/npx agent --acp", "npx"}, {"/x/bunx agent", "bunx"}, {"/x/uvx agent", "uvx"}, {"/x/pipx run agent", "pipx"},
		{"/x/npm --silent exec agent -- --acp", "npm exec"}, {"/x/npm x agent", "npm x"}, {"/x/pnpm dlx agent", "pnpm"}, {"/x/node --run agent", "node --run"},
		{"/x/yarn agent", "yarn"}, {"/x/bun x agent", "bun x"}, {"/x/bun /x/agent.js", "bun"}, {"/usr/bin/env deno /x/agent.ts", "deno"}, {"/x/docker --debug compose run agent", "docker compose"}, {"/x/nix-shell --run agent", "nix-shell"}, {"/x/uv tool run agent", "uv tool"},
		{"/usr/bin/env -S A=1 npx agent", "npx"}, {"/x/NPX.CMD agent", "npx"},
		{"/usr/bin/env|-S|npx agent", "npx"}, {"/usr/bin/env|-vS A=1 'npx' agent", "npx"}, {"/usr/bin/env|--split-string=/x/npx agent", "npx"},
		{"env -u X npx agent", "npx"}, {"env -i A=b npx agent", "npx"}, {"env -C /tmp npm --silent exec agent", "npm exec"},
		{"nice -n 5 npx agent", "npx"}, {"nohup /x/npx agent", "npx"}, {"timeout -k 1 5 npx agent", "npx"}, {"setsid -w bunx agent", "bunx"},
		{"stdbuf -oL uvx agent", "uvx"}, {"ionice -c 3 env A=b nice npx agent", "npx"}, {"xvfb-run -a npx agent", "npx"},
		{"systemd-run --user --pipe npx agent", "npx"}, {"sudo -u agent npx agent", "npx"}, {"busybox nice npx agent", "npx"}, {"/x/NICE.EXE npx agent", "npx"},
		{"/x/npm-agent exec", ""}, {"/usr/bin/node /x/agent.js", ""}, {"/x/uv --version", ""}, {"/usr/bin/env", ""},
		{"nice", ""}, {"nice /x/agent --acp", ""}, {"env -u npm_config_x /x/npm-agent exec", ""}, {"/x/agent npx", ""}, {"/x/docker run -i agent", ""}, {"env NPX=/x/npx /x/agent", ""},
	} {
		words := strings.FieldsFunc(c.command, func(r rune) bool { return r == '|' || r == ' ' && !strings.Contains(c.command, "|") })
		cmd := Command{Path: words[0], Args: words[1:]}
		err := cmd.prepareUntrusted(t.Context(), runnel.Options{Dir: dir}, Agent{Name: "Agent"})
		switch {
		case c.name == "" && err != nil:
			t.Errorf("%s: %v", c.command, err)
		case c.name != "" && (runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "started by "+c.name+",") || !strings.Contains(err.Error(), "--trusted-folders "+dir)):
			t.Errorf("%s: %v", c.command, err)
		}
		if err := cmd.prepareUntrusted(t.Context(), runnel.Options{Dir: EmptyDir()}, Agent{Name: "Agent"}); err != nil {
			t.Errorf("%s, in the empty directory: %v", c.command, err)
		}
	}
}

// In the empty directory, a program that applies settings of the current folder finds
// none.
func TestProgramThatReadsSettingsCanStartElsewhere(t *testing.T) {
	_, dir := project(t)
	for command, refused := range map[string]bool{"/x/bun /x/agent.js": false, "/x/deno /x/agent.ts": false, "/x/bun x agent": true} {
		words := strings.Fields(command)
		cmd := Command{Path: words[0], Args: words[1:], Elsewhere: true}
		if err := cmd.prepareUntrusted(t.Context(), runnel.Options{Dir: dir}, Agent{Name: "Agent"}); refused != (err != nil) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestScriptOfTheFolderIsRefused(t *testing.T) {
	_, dir := project(t)
	script(t, filepath.Join(dir, "agent.js"))
	opt := runnel.Options{Dir: dir}
	for _, c := range []struct {
		cmd     Command
		refused bool
	}{
		{Command{Args: []string{"--flag", "agent.js"}}, true},
		{Command{Args: []string{"./agent.js"}}, true},
		{Command{Path: "/usr/bin/env", Args: []string{"-S", "A=1 ./agent.js --flag"}}, true},
		{Command{Path: "/usr/bin/env", Args: []string{"-S./agent.js --flag"}}, true},
		{Command{Path: "/usr/bin/nice", Args: []string{"node", "agent.js"}}, true},
		{Command{Args: []string{"agent.js"}, Elsewhere: true}, false}, // the file does not exist in the start directory
		{Command{Args: []string{"other.js", "--agent.js", filepath.Join(dir, "agent.js"), ""}}, false},
	} {
		if c.cmd.Path == "" {
			c.cmd.Path = "/usr/bin/node"
		}
		err := c.cmd.prepareUntrusted(t.Context(), opt, Agent{Name: "Agent"})
		if c.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "agent.js, which is a file of the folder") {
			t.Errorf("%q: %v", c.cmd.Args, err)
		}
	}
}

func TestUntrustedFolderIsNotInPath(t *testing.T) {
	home, dir := project(t)
	own, others := filepath.Join(home, "bin"), filepath.Join(dir, "node_modules", ".bin")
	for _, path := range []string{filepath.Join(own, "agent"), filepath.Join(others, "agent"), filepath.Join(others, "other")} {
		script(t, path)
	}
	link := filepath.Join(home, "link")
	if err := os.Symlink(others, link); err != nil {
		t.Fatal(err)
	}
	list := string(os.PathListSeparator)
	path := strings.Join([]string{".", "", "node_modules/.bin", others, link, own}, list)
	t.Setenv("PATH", path)
	t.Chdir(dir)
	for _, c := range []struct {
		opt   runnel.Options
		agent string // folder of the program that is found
		path  string // the agent's PATH
	}{
		{runnel.Options{Dir: dir}, own, own},
		{runnel.Options{}, own, own}, // the current directory
		{runnel.Options{Dir: own, AddDirs: []string{dir}}, "", ""},
		{runnel.Options{Dir: home}, others, others + list + link + list + own}, // the home directory contains the user's programs
	} {
		found, err := Find("agent", Agent{Name: "Agent"}, c.opt)
		if c.agent == "" && err == nil || c.agent != "" && found != filepath.Join(c.agent, "agent") {
			t.Errorf("%+v: found %q, %v", c.opt, found, err)
		}
		cmd := Command{Path: "/bin/agent", Env: []string{"A=1", "PATH=" + path}}
		if err := cmd.prepareUntrusted(t.Context(), c.opt, Agent{Name: "Agent"}); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(cmd.Env, "PATH="+c.path) {
			t.Errorf("%+v: environment %v", c.opt, cmd.Env)
		}
	}
	if found, err := Find("agent", Agent{Name: "Agent"}, runnel.Options{Dir: dir, Trusted: true}); found != filepath.Join(others, "agent") {
		t.Errorf("trusted: found %q, %v", found, err)
	}
}

func TestRelativeProgramIsRefusedInUntrustedFolders(t *testing.T) {
	home, dir := project(t)
	script(t, filepath.Join(dir, "agent"))
	t.Chdir(home)
	_, err := Find("project/agent", Agent{Name: "Agent"}, runnel.Options{Dir: dir})
	if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "project/agent") || !strings.Contains(err.Error(), "--trust") {
		t.Errorf("error %v", err)
	}
	if found, err := Find("project/agent", Agent{Name: "Agent"}, runnel.Options{Dir: dir, Trusted: true}); found != filepath.Join(dir, "agent") {
		t.Errorf("trusted: found %q, %v", found, err)
	}
	if found, err := Find(filepath.Join(dir, "agent"), Agent{Name: "Agent"}, runnel.Options{Dir: dir}); found != filepath.Join(dir, "agent") {
		t.Errorf("absolute path: found %q, %v", found, err)
	}
}

func TestAgentStartsInAnEmptyDirectory(t *testing.T) {
	home, dir := project(t)
	sh, err := Find("sh", Agent{}, runnel.Options{})
	if err != nil {
		t.Skip("sh is not installed")
	}
	start := func(opt runnel.Options) (string, error) {
		t.Helper()
		tr := lineNotices{lines: new(int)}
		c, err := Start(t.Context(), Command{Path: sh, Args: []string{"-c", "pwd -P"}, Env: []string{"PATH=/usr/bin:/bin"}, Elsewhere: true}, Agent{Name: "Agent"}, tr, opt)
		if err != nil {
			return "", err
		}
		defer c.Close()
		ev, err := c.Next(t.Context())
		if err != nil {
			return "", err
		}
		return ev.Body.(event.Notice).Message, nil
	}
	empty := filepath.Join(home, ".cache", "runnel", "empty")
	if at, err := start(runnel.Options{Dir: dir}); at != empty || err != nil {
		t.Errorf("started in %q, want %q; error %v", at, empty, err)
	}
	script(t, filepath.Join(empty, "left"))
	if at, err := start(runnel.Options{Dir: dir}); at != empty+"-2" || err != nil {
		t.Errorf("with a file in the empty directory: started in %q, error %v", at, err)
	}
	if at, err := start(runnel.Options{Dir: dir, Trusted: true}); at != dir || err != nil {
		t.Errorf("trusted: started in %q, error %v", at, err)
	}
	if _, err := start(runnel.Options{Dir: filepath.Join(dir, "missing")}); runnel.CodeOf(err) != runnel.WorkingRootInaccessible {
		t.Errorf("a missing project: %v", err)
	}
	if _, err := start(runnel.Options{Dir: filepath.Join(empty, "left")}); runnel.CodeOf(err) != runnel.WorkingRootInaccessible {
		t.Errorf("a file as project: %v", err)
	}
}

func TestProbeWorksWithoutHome(t *testing.T) {
	project(t)
	t.Setenv("HOME", "")
	root := EmptyDir()
	if root != string(filepath.Separator) {
		t.Fatalf("the empty directory is %s, want the root", root)
	}
	cmd := Command{Path: "/usr/bin/npx", Args: []string{"agent"}, Env: []string{"PATH=/usr/bin"}, Elsewhere: true}
	if err := cmd.prepareUntrusted(t.Context(), runnel.Options{Dir: root}, Agent{Name: "Agent"}); err != nil || !slices.Contains(cmd.Env, "PATH=/usr/bin") {
		t.Errorf("environment %v, error %v", cmd.Env, err)
	}
}

func TestEmptyDirThroughSymlinkIsAccepted(t *testing.T) {
	home, _ := project(t)
	real := filepath.Join(home, "real")
	if err := os.MkdirAll(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(home, ".cache")); err != nil {
		t.Fatal(err)
	}
	cmd := Command{Path: "/usr/bin/npx"}
	if err := cmd.prepareUntrusted(t.Context(), runnel.Options{Dir: EmptyDir()}, Agent{Name: "Agent"}); err != nil {
		t.Error(err)
	}
}

// Other users could add settings to a folder that they can change, and may have
// created it first if the cache is in a shared folder.
func TestEmptyDirIsNoFolderThatOthersCanChange(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the cache is elsewhere, or files have no modes")
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if real, err := filepath.EvalSymlinks(cache); err == nil {
		cache = real
	}
	ours := filepath.Join(cache, "runnel")
	for _, open := range []string{filepath.Join(ours, "empty"), ours} {
		if err := os.MkdirAll(open, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if dir := EmptyDir(); dir == filepath.Join(ours, "empty") || open == ours && dir != string(filepath.Separator) {
			t.Errorf("others can change %s, and the empty directory is %s", open, dir)
		}
	}
}

// Runnel must not run a program named git from the folder.
func TestGitOfTheFolderIsNotRun(t *testing.T) {
	home, dir := project(t)
	mark := filepath.Join(home, "ran")
	for _, name := range []string{"bin/git", ".git/config"} {
		script(t, filepath.Join(dir, name))
	}
	if err := testexec.Write(filepath.Join(dir, "bin", "git"), "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	opt := runnel.Options{Dir: dir}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	GitPins(t.Context(), env, opt)
	cmd := Command{Path: "/bin/agent", Env: env}
	err := cmd.prepareUntrusted(t.Context(), opt, Agent{Name: "Agent"})
	t.Log(err) // the git configuration is invalid
	if _, err := os.Stat(mark); err == nil {
		t.Error("git of the folder ran")
	}
}

func TestTrustCommandIsQuoted(t *testing.T) {
	for dir, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "/a b": "'/a b'", "/a'b;$c": `'/a'\''b;$c'`, "/a,/b": `'"/a,/b"'`, `/a",b`: `'"/a"",b"'`} {
		if err := Untrusted(runnel.Options{Dir: dir}, dir, "Why."); !strings.Contains(err.Error(), "--trusted-folders "+want+" (") {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// A further folder stays untrusted even if the agent works in a trusted folder.
func TestUntrustedFurtherFolderIsChecked(t *testing.T) {
	home, dir := project(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	other := filepath.Join(home, "other")
	config := filepath.Join(other, ".git", "config")
	script(t, config) // also creates the folder
	for _, name := range []string{"HEAD", "objects", "refs"} {
		script(t, filepath.Join(other, ".git", name, "x"))
	}
	if err := os.WriteFile(config, []byte("[diff \"x\"]\n\tcommand = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + other + string(os.PathListSeparator) + os.Getenv("PATH")
	for _, c := range []struct {
		opt     runnel.Options
		refused bool
		advice  string // how to trust the folder
	}{
		{runnel.Options{Dir: dir, Trusted: true, AddDirs: []string{other}, UntrustedDirs: []string{other}}, true, "To trust the folder: runnel serve --trusted-folders " + other + " ("},
		{runnel.Options{Dir: dir, AddDirs: []string{other}}, true, "To trust the folder: runnel serve --trusted-folders " + other + " ("},
		{runnel.Options{Dir: other}, true, "To trust the folder: runnel run --trust (for one prompt), runnel serve --trusted-folders " + other + " ("},
		{runnel.Options{Dir: dir, Trusted: true, AddDirs: []string{other}}, false, ""},
	} {
		_, err := Start(t.Context(), Command{Path: "/no/such/program", Env: []string{path}}, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, c.opt)
		if c.refused != strings.Contains(err.Error(), "diff.x.command (.git/config)") || !strings.Contains(err.Error(), c.advice) {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
}

// Runnel pins no git settings in a trusted folder, because they would stop the
// hooks of that folder. So a further folder that is untrusted must have no
// hooks.
func TestHooksOfUntrustedFolderBesideTrustedOneAreFound(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	t.Setenv("HOME", t.TempDir())
	dir, other := t.TempDir(), t.TempDir()
	hooks := filepath.Join(other, ".git", "hooks")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.MkdirAll(hooks, 0o700), os.WriteFile(filepath.Join(hooks, "pre-commit.sample"), nil, 0o700), os.WriteFile(filepath.Join(hooks, "pre-push"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	start := func(opt runnel.Options) string {
		_, err := Start(t.Context(), Command{Path: "/no/such/program", Env: []string{"PATH=" + os.Getenv("PATH")}}, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, opt)
		return err.Error()
	}
	beside := runnel.Options{Dir: dir, Trusted: true, AddDirs: []string{other}, UntrustedDirs: []string{other}}
	if got := start(beside); strings.Contains(got, "hooks") {
		t.Errorf("without hooks that git runs: %s", got)
	}
	if err := testexec.Write(filepath.Join(hooks, "post-index-change"), "#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	if got := start(beside); !strings.Contains(got, ".git/hooks/post-index-change (") {
		t.Errorf("beside a trusted folder: %s", got)
	}
	if got := start(runnel.Options{Dir: other}); strings.Contains(got, "hooks") {
		t.Errorf("alone, where settings are pinned: %s", got)
	}
}

// Agents run git on their own, so the same holds if git is a shim.
func TestShimOfGitThatRunsProgramOfFolderIsRefused(t *testing.T) {
	home, dir := project(t)
	shims := filepath.Join(home, ".asdf", "shims")
	write := func(path, text string) string {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), testexec.Write(path, text)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agent := write(filepath.Join(home, "bin", "agent"), "#!/bin/sh\n")
	env := []string{"PATH=" + shims + string(os.PathListSeparator) + os.Getenv("PATH")}
	start := func(elsewhere bool) error {
		c, err := Start(t.Context(), Command{Path: agent, Env: env, Elsewhere: elsewhere}, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, runnel.Options{Dir: dir})
		if err == nil {
			c.Ended()
		}
		return err
	}
	versions := write(filepath.Join(dir, ".tool-versions"), "git path:./evil\n")
	if err := start(false); err != nil {
		t.Errorf("with a git that is no shim: %v", err)
	}
	write(filepath.Join(shims, "git"), "#!/bin/sh\nexec evil/bin/git\n")
	for _, elsewhere := range []bool{false, true} {
		if err := start(elsewhere); err == nil || !strings.Contains(err.Error(), versions) {
			t.Errorf("elsewhere %t: %v", elsewhere, err)
		}
	}
}

// A shim of a version manager runs a program of the folder if a file of the
// folder names the path of that program.
func TestShimThatRunsProgramOfFolderIsRefused(t *testing.T) {
	home, dir := project(t)
	shims, mark := filepath.Join(home, ".asdf", "shims"), filepath.Join(home, "mark")
	write := func(path, text string) string {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), testexec.Write(path, text)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shim := write(filepath.Join(shims, "node"), "#!/bin/sh\nf=.tool-versions\n[ -e $f ] || exit 0\nexec \"$(sed 's/.*path://' $f)/bin/node\"\n")
	write(filepath.Join(dir, "evil", "bin", "node"), "#!/bin/sh\ntouch "+mark+"\n")
	env := []string{"PATH=" + shims + string(os.PathListSeparator) + os.Getenv("PATH")}
	start := func(program string) error {
		c, err := Start(t.Context(), Command{Path: program, Env: env}, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, runnel.Options{Dir: dir})
		if err == nil {
			c.Ended()
		}
		return err
	}
	script := write(filepath.Join(home, "bin", "agent"), "#!/usr/bin/env node\n")
	if err := start(script); err != nil {
		t.Fatalf("in a folder that names no version: %v", err)
	}
	versions := write(filepath.Join(dir, ".tool-versions"), "nodejs path:./evil\n")
	for _, program := range []string{script, shim} {
		if err := start(program); err == nil || !strings.Contains(err.Error(), versions) {
			t.Errorf("%s: %v", program, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the folder ran")
	}
	if err := start(write(filepath.Join(home, "bin", "plain"), "#!/bin/sh\n")); err != nil {
		t.Errorf("a program without a shim: %v", err)
	}
	write(versions, "nodejs 22.1.0\n")
	if got := versionByPath(dir); got != "" {
		t.Errorf("a plain version: %s", got)
	}
	for name, text := range map[string]string{
		".config/mise/config.toml": "[tools]\nnode = \"path:./evil\"\n", "mise.toml": "[tools]\nnode = \"path:./evil\"\n",
		".prototools": "[plugins]\nnode = \"file://./evil.toml\"\n", ".node-version": "../../evil\n",
	} {
		path := write(filepath.Join(dir, name), text)
		if got := versionByPath(dir); got != path {
			t.Errorf("%s: %q", name, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, ".mise"), "a file")
	if got := versionByPath(dir); got != "" {
		t.Errorf("a file in place of a folder: %s", got)
	}
}

// A shim of Volta runs node_modules/.bin/NAME of a project that depends on the
// package of the program NAME, with Yarn also what .pnp.cjs finds. "extends" in
// package.json names a further project.
func TestShimOfVoltaThatRunsProgramOfFolderIsRefused(t *testing.T) {
	home, dir := project(t)
	bin, mark := filepath.Join(home, ".volta", "bin"), filepath.Join(home, "mark")
	write := func(path, text string) string {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), testexec.Write(path, text)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shim := write(filepath.Join(bin, "volta-shim"), "#!/bin/sh\np=node_modules/.bin/$(basename $0)\n[ -e $p ] && exec $p\n")
	agent, node := filepath.Join(bin, "agent"), filepath.Join(bin, "node")
	for _, link := range []string{agent, node} {
		if err := os.Symlink(shim, link); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	start := func(c Command) error {
		c.Env = env
		conn, err := Start(t.Context(), c, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, runnel.Options{Dir: dir})
		if err == nil {
			conn.Ended()
		}
		return err
	}
	script := write(filepath.Join(home, "bin", "script"), "#!/usr/bin/env node\n")
	for _, file := range []struct{ name, text string }{
		{"node_modules/.bin/agent", "#!/bin/sh\ntouch " + mark + "\n"}, {".pnp.cjs", ""}, {".pnp.js", ""},
		{"package.json", `{"volta":{"\u0065xtends":"x/package.json"}}`}, {"package.json", "{"},
	} {
		write(filepath.Join(dir, "package.json"), `{"dependencies":{"agent":"1.0.0"},"volta":{"node":"22.1.0"}}`)
		if err := start(Command{Path: agent}); err != nil {
			t.Fatalf("before %s: %v", file.name, err)
		}
		path := write(filepath.Join(dir, filepath.FromSlash(file.name)), file.text)
		for _, c := range []Command{{Path: agent}, {Path: "/usr/bin/env", Args: []string{"agent"}}} {
			if err := start(c); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, %s: %v", file.name, c.Path, err)
			}
		}
		for _, c := range []Command{{Path: agent, Elsewhere: true}, {Path: script}} { // of node, Volta chooses only the version
			if err := start(c); err != nil {
				t.Errorf("%s, %+v: %v", file.name, c, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the folder ran")
	}
}
