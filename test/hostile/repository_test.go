//go:build linux

package hostile

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// git runs git in the project, as the world's user.
func (w *world) git(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = w.project, w.command().Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// marks makes a folder of marks. touch returns a shell command that leaves a
// mark in the folder. ran returns the marks in the folder and removes them.
func (w *world) marks() (touch func(mark string) string, ran func() []string) {
	w.t.Helper()
	dir := w.folder(filepath.Join(w.dir, "marks"), 0o700)
	return func(mark string) string { return "touch " + filepath.Join(dir, mark) }, func() (names []string) {
		w.t.Helper()
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return names
	}
}

// refused checks that the server rejects a session in dir, and returns the
// reason.
func (w *world) refused(dir string) string {
	w.t.Helper()
	var made struct {
		Error problem `json:"error"`
	}
	if code, _ := w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": dir}, &made); code != http.StatusUnprocessableEntity {
		w.t.Errorf("create in %s: %d", dir, code)
	}
	return made.Error.Message
}

// TestRepositoryRunsNothingBeforeItIsTrusted has an agent call git in a
// repository with hooks, and with programs that the user's PATH would find.
// None of them may run. It then adds programs to the configuration of the
// repository and of a bare repository among its files. The server must reject a
// session there and name these settings.
func TestRepositoryRunsNothingBeforeItIsTrusted(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		touch, ran := w.marks()
		program := func(path, mark string) { w.put(path, "#!/bin/sh\n"+touch(mark)+"\n", 0o755) }
		w.git("init", "-q", ".")
		w.git("init", "-q", "--bare", "bare")
		w.git("-C", "bare", "config", "core.bare", "false")
		w.git("-C", "bare", "config", "core.worktree", ".")
		program(filepath.Join(w.project, ".git", "hooks", "post-index-change"), "hook")
		program(filepath.Join(w.project, "ls"), "path")
		program(filepath.Join(w.project, "git"), "git")
		w.path = ".:" + w.project
		w.start()

		work := plan{Deltas: 1, Tool: []string{"sh", "-c", "git add -A; git status; (cd bare && git status); ls; echo true > done"}}
		c := w.Watch(w.create())
		defer c.Leave()
		c.End(c.Send(work.prompt()))
		var done bool
		w.file("done", &done)
		if names := ran(); names != nil {
			t.Errorf("of the repository ran %q", names)
		}
		w.killSessions()

		w.git("config", "core.fsmonitor", touch("fsmonitor")+" #")
		w.git("config", "include.path", "more")
		w.git("config", "--file", ".git/more", "filter.evil.clean", touch("filter"))
		w.git("-C", "bare", "config", "core.fsmonitor", touch("bare")+" #")
		reason := w.refused(w.project)
		for _, want := range []string{"core.fsmonitor (.git/config)", "filter.evil.clean (.git/more)", "core.fsmonitor (bare/config)", "--trusted-folders " + w.project} {
			if !strings.Contains(reason, want) {
				t.Errorf("the refusal lacks %q: %s", want, reason)
			}
		}
		if names := ran(); names != nil {
			t.Errorf("of the refused repository ran %q", names)
		}
		w.empty(5 * time.Second)
	})
}

// TestCraftedRepositoriesAreRefused creates repositories whose configuration is
// hard to find. It shows that git runs a program of each repository. The server
// must then reject a session there.
func TestCraftedRepositoriesAreRefused(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		touch, ran := w.marks()
		evil := "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + touch("fsmonitor") + " #\n"
		w.start()
		for name, c := range map[string]struct {
			make  func(dir string)
			at    string // where git is called
			wants string
			runs  []string // the command that git runs. Default: status
		}{
			"zero byte in a .git file": {func(dir string) {
				elsewhere := filepath.Join(w.dir, "other", "store")
				w.git("init", "-q", "--bare", elsewhere)
				w.put(filepath.Join(elsewhere, "config"), evil, 0o600)
				w.put(filepath.Join(w.folder(filepath.Join(dir, "c"), 0o700), ".git"), "gitdir: "+elsewhere+"\x00more\n", 0o600)
			}, "c", "core.fsmonitor (" + w.dir + "/other/store/config)", nil},
			"one include by two names": {func(dir string) {
				w.git("init", "-q", dir)
				a, b := w.folder(filepath.Join(dir, "a"), 0o700), w.folder(filepath.Join(dir, "b"), 0o700)
				w.git("config", "--file", filepath.Join(dir, ".git", "config"), "--add", "include.path", "../a/one")
				w.git("config", "--file", filepath.Join(dir, ".git", "config"), "--add", "include.path", "../b/one")
				w.put(filepath.Join(a, "one"), "[include]\n\tpath = two\n", 0o600)
				w.put(filepath.Join(b, "two"), evil, 0o600)
				if err := os.Symlink("../a/one", filepath.Join(b, "one")); err != nil {
					t.Fatal(err)
				}
			}, ".", "core.fsmonitor (b/two)", nil},
			"repository in a folder like one of objects": {func(dir string) {
				w.git("init", "-q", filepath.Join(dir, "objects", "ab"))
				w.put(filepath.Join(dir, "objects", "ab", ".git", "config"), evil, 0o600)
			}, "objects/ab", "core.fsmonitor (objects/ab/.git/config)", nil},
			"repository in place of objects": {func(dir string) {
				w.git("init", "-q", dir)
				w.git("init", "-q", filepath.Join(dir, ".git", "objects", "ab"))
				w.put(filepath.Join(dir, ".git", "objects", "ab", ".git", "config"), evil, 0o600)
				if err := os.Symlink(filepath.Join(".git", "objects", "ab"), filepath.Join(dir, "src")); err != nil {
					t.Fatal(err)
				}
			}, "src", "core.fsmonitor (.git/objects/ab/.git/config)", nil},
			"bare repository in a folder like one of objects": {func(dir string) {
				w.git("init", "-q", "--bare", filepath.Join(dir, "a", "objects", "pack"))
				w.put(filepath.Join(dir, "a", "objects", "pack", "config"), evil+"\tbare = false\n\tworktree = .\n", 0o600)
			}, "a/objects/pack", "core.fsmonitor (a/objects/pack/config)", nil},
			"alias that leads to a program": {func(dir string) {
				w.git("init", "-q", dir)
				w.folder(filepath.Join(dir, "git-x"), 0o700)
				w.put(filepath.Join(dir, "evil"), "#!/bin/sh\n"+touch("alias")+"\n", 0o755)
				w.git("-C", dir, "config", "alias.st", "x/../evil")
			}, ".", "alias.st (.git/config)", []string{"st"}},
			"option in the quotes of an alias": {func(dir string) {
				w.git("init", "-q", dir)
				w.git("-C", dir, "config", "alias.st", "'-c' core.fsmonitor='"+touch("option")+" #' status")
			}, ".", "alias.st (.git/config)", []string{"st"}},
			"steps in the format of a rebase": {func(dir string) {
				w.git("init", "-q", dir)
				for range 2 {
					w.git("-C", dir, "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "x")
				}
				w.git("-C", dir, "config", "rebase.instructionFormat", "%s%nexec "+touch("rebase"))
			}, ".", "rebase.instructionformat (.git/config)", []string{"-c", "user.name=a", "-c", "user.email=a", "rebase", "-q", "--force-rebase", "--keep-empty", "HEAD~1"}},
		} {
			t.Run(name, func(t *testing.T) {
				dir := w.folder(filepath.Join(w.project, strings.ReplaceAll(name, " ", "-")), 0o700)
				c.make(dir)
				if c.runs == nil {
					c.runs = []string{"status"}
				}
				w.git(append([]string{"-C", filepath.Join(dir, c.at)}, c.runs...)...)
				if ran() == nil {
					t.Fatal("git runs nothing there")
				}
				if reason := w.refused(dir); !strings.Contains(reason, c.wants) {
					t.Errorf("the refusal lacks %q: %s", c.wants, reason)
				}
				if names := ran(); names != nil {
					t.Errorf("of the refused repository ran %q", names)
				}
			})
		}
		w.empty(5 * time.Second)
	})
}

// TestRepositoryWithReceivingHooksIsRefused pushes, with the pinned settings
// that an agent's git has, to a bare repository among the files of the project.
// Git starts the receiving side without those settings, so that its hooks run.
// The server must reject a session in a project with such hooks.
func TestRepositoryWithReceivingHooksIsRefused(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		touch, ran := w.marks()
		w.git("init", "-q", ".")
		w.git("-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m", "x")
		w.git("init", "-q", "--bare", "store.git")
		w.git("remote", "add", "origin", "./store.git")
		w.start()
		push := func(branch string) {
			t.Helper()
			work := plan{Deltas: 1, Tool: []string{"sh", "-c", "git push -q origin HEAD:refs/heads/" + branch + " && echo true > " + branch}}
			c := w.Watch(w.create())
			defer c.Leave()
			c.End(c.Send(work.prompt()))
			var done bool
			w.file(branch, &done)
			w.killSessions()
		}
		push("before")
		hook := filepath.Join(w.project, "store.git", "hooks", "post-receive")
		w.put(hook, "#!/bin/sh\n"+touch("hook")+"\n", 0o755)
		var made struct {
			Error problem `json:"error"`
		}
		code, _ := w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made)
		if code == http.StatusCreated {
			push("after")
			t.Fatalf("the agent got the folder, and of it ran %q", ran())
		}
		for _, want := range []string{"store.git/hooks/post-receive (", "--trusted-folders " + w.project} {
			if !strings.Contains(made.Error.Message, want) {
				t.Errorf("create: %d, and the refusal lacks %q: %s", code, want, made.Error.Message)
			}
		}
		w.empty(5 * time.Second)
	})
}

// TestLaunchersBehindWrappersAreRefused configures an agent whose command runs
// npx behind wrappers such as env. This npx, like the real one, prefers
// programs of the project folder, so the server must reject a session there.
func TestLaunchersBehindWrappersAreRefused(t *testing.T) {
	w := newWorld(t, nil, "60s")
	touch, ran := w.marks()
	w.put(filepath.Join(w.dir, "bin", "npx"), "#!/bin/sh\n"+
		`own=node_modules/.bin/$1; [ -x $own ] && exec $own; shift; exec "`+w.agent()+`" "$@"`+"\n", 0o755)
	bin := filepath.Join(w.project, "node_modules", ".bin")
	if err := os.MkdirAll(bin, fs.ModePerm); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(bin, "claude"), "#!/bin/sh\n"+touch("folder")+"\n", 0o755)
	for _, command := range []string{"[env, -S, npx claude]", "[env, -u, X, npx, claude]", "[env, -i, A=b, npx, claude]", "[nice, npx, claude]", "[timeout, '60', npx, claude]", "[nohup, nice, npx, claude]"} {
		w.put(filepath.Join(w.dir, "config.yaml"), "agents:\n  claude: {command: "+command+"}\n", 0o600)
		w.flags = []string{"--config", filepath.Join(w.dir, "config.yaml")}
		w.start()
		if reason := w.refused(w.project); !strings.Contains(reason, "started by npx") {
			t.Errorf("%s: the refusal says %q", command, reason)
		}
		if ran() != nil {
			t.Errorf("%s: a program of the folder ran", command)
		}
		w.stop()
	}
}

// TestFolderThatCannotBeListedIsRefused puts a repository below a folder that
// can be entered but not listed, as an archive can contain it. Git works in the
// repository, but the server cannot find it, so it must reject a session.
func TestFolderThatCannotBeListedIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to be several users")
	}
	w := newWorld(t, stranger, "60s")
	w.git("init", "-q", "closed/repository")
	w.git("-C", "closed/repository", "config", "core.fsmonitor", "touch "+filepath.Join(w.dir, "ran")+" #")
	w.start()
	closed := filepath.Join(w.project, "closed")
	if err := os.Chmod(closed, 0o311); err != nil {
		t.Fatal(err)
	}
	w.git("-C", "closed/repository", "rev-parse") // git works there
	create := func() (code int, message string) {
		var made struct {
			Error problem `json:"error"`
		}
		code, _ = w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made)
		return code, made.Error.Message
	}
	if code, message := create(); code != http.StatusUnprocessableEntity || !strings.Contains(message, "closed (permission denied)") {
		t.Errorf("create: %d %s", code, message)
	}
	if err := os.Chmod(closed, 0); err != nil { // now git does not work there either
		t.Fatal(err)
	}
	w.create()
	w.killSessions()
}

// TestAgentsStartOutsideAnUntrustedFolder creates sessions of agents that
// receive their folder by their protocol. In an untrusted folder, their process
// must start in the empty directory of the user's cache, and in a trusted folder
// in that folder.
func TestAgentsStartOutsideAnUntrustedFolder(t *testing.T) {
	w := newWorld(t, nil, "60s")
	started := filepath.Join(w.dir, "started")
	for name, session := range map[string]string{"codex": "app-server", "opencode": "acp"} {
		w.put(filepath.Join(w.dir, "bin", name), `#!/bin/sh
[ "$1" = `+session+` ] && pwd -P >> `+started+`-`+name+`
exit 1
`, 0o755)
	}
	empty := filepath.Join(w.dir, ".cache", "runnel", "empty")
	for folder, want := range map[string]string{"an untrusted folder": empty, "a trusted folder": w.project} {
		if want == w.project {
			w.flags = []string{"--trusted-folders", w.project}
		}
		w.start()
		for _, name := range []string{"codex", "opencode"} {
			var made struct{ Error problem }
			if code, ok := w.Call("POST", "/api/session/create", object{"cliType": name, "projectDir": w.project}, &made); !ok || code == http.StatusCreated || made.Error.Message == "" {
				t.Errorf("%s in %s: %d %+v", name, folder, code, made)
			}
			b, err := os.ReadFile(started + "-" + name)
			if err != nil {
				t.Fatalf("%s in %s did not start: %v, %+v", name, folder, err, made)
			}
			for dir := range strings.Lines(string(b)) { // the server may also have asked the agent about itself
				if dir := strings.TrimSpace(dir); dir != want && dir != empty {
					t.Errorf("%s in %s started in %s", name, folder, dir)
				}
			}
			if !strings.Contains(string(b), want+"\n") {
				t.Errorf("%s in %s started in %q, want %s", name, folder, b, want)
			}
			if err := os.Remove(started + "-" + name); err != nil {
				t.Fatal(err)
			}
		}
		w.stop()
		w.flags = nil
	}
}
