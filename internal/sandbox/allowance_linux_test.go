package sandbox

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/testload"
)

// homed makes the home directory of w that of this process, too, and returns a
// directory there that may be allowed.
func (w world) homed(t *testing.T) (data string) {
	t.Helper()
	t.Setenv("HOME", w.home)
	data = filepath.Join(w.home, "code", "data")
	if err := os.MkdirAll(filepath.Join(data, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "sub/file"} {
		if err := os.WriteFile(filepath.Join(data, name), []byte("allowed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestAllowedPathIsInTheSandboxAndItsNeighboursAreNot(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	script := `cat ` + data + `/sub/file; cat ` + w.home + `/code/other/file; ls ` + w.home + `/code; echo over > ` + data + `/written && echo wrote`
	if out, _ := run(t, w.box(script)); strings.Contains(out, "allowed") {
		t.Fatalf("without an allowance: %q", out)
	}
	b := w.box(script)
	b.Allowed = []Allowance{{Path: data}}
	out, _ := run(t, b)
	if !strings.HasPrefix(out, "allowed") || strings.Contains(out, "secret") || strings.Contains(out, "other") || strings.Contains(out, "wrote") {
		t.Errorf("readable: %q", out)
	}
	b.Allowed[0].Write = true
	if out, _ = run(t, b); !strings.HasSuffix(out, "wrote\n") || strings.Contains(out, "other") {
		t.Errorf("writable: %q", out)
	}
}

func TestAllowedPathIsInTheSandboxOfFiles(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	data := w.homed(t)
	script := `exec 2>/dev/null; cat ` + data + `/sub/file; cat ` + w.home + `/code/other/file; echo over > ` + data + `/written && echo wrote`
	b := w.confined(t, script)
	if out, _ := runConfined(t, b); out != "" {
		t.Fatalf("without an allowance: %q", out)
	}
	b = w.confined(t, script)
	b.Allowed = []Allowance{{Path: data}}
	out, _ := runConfined(t, b)
	if out != "allowed" {
		t.Errorf("readable: %q", out)
	}
	b = w.confined(t, script)
	b.Allowed = []Allowance{{data, true}}
	if out, _ = runConfined(t, b); out != "allowedwrote\n" {
		t.Errorf("writable: %q", out)
	}
}

// An allowed path leads nowhere else when the agent starts: another sandbox that
// may write its directory can replace it.
func TestAllowedPathThatIsALinkNowStartsNoAgent(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	b := w.box("true")
	b.Allowed = []Allowance{{Path: data}}
	for name, change := range map[string]func() error{
		"link to a protected path": func() error { return os.Symlink(filepath.Join(w.home, ".ssh"), data) },
		"link to a neighbour":      func() error { return os.Symlink(filepath.Join(w.home, "code", "other"), data) },
		"removed":                  func() error { return nil },
	} {
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, _, _, err := b.Command(); !errors.As(err, &e) || !strings.Contains(e.Error(), data) || !strings.Contains(e.Error(), "Remove the rule") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExchangedAllowedPathShowsNothingElse(t *testing.T) {
	testload.TakesLong(t)
	tries := 8
	if os.Getenv("RUNNEL_LONG") != "" {
		tries = 100
	}
	for name, write := range map[string]bool{"readable": false, "writable": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data := w.homed(t)
			link := filepath.Join(w.home, "code", "link")
			if err := os.Symlink(filepath.Join(w.home, ".ssh"), link); err != nil {
				t.Fatal(err)
			}
			b := w.box("cat " + data + "/id")
			b.Allowed = []Allowance{{data, write}}
			exchange(t, data, link)
			started := 0
			for range tries {
				path, args, env, err := b.Command()
				if err != nil {
					continue // noticed at once
				}
				started++
				if out, _ := output(t, proc.Command{Path: path, Args: args, Env: env, Dir: "/", Boxed: true}); strings.Contains(out, "secret") {
					t.Fatal("a protected directory is in the sandbox")
				}
			}
			t.Log("sandboxes made:", started)
		})
	}
}

func TestProtectedPathsAreNeverAllowed(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(w.home, "code", "agent", "socket"))
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(w.home, "code", "docker", "socket"))
	t.Setenv("PATH", filepath.Join(w.home, "tools")+":"+os.Getenv("PATH"))
	for _, dir := range []string{"agent-state", ".mozilla", ".config/x", ".cache/y", "go/bin", "tools", "code/repo/.git/hooks", "code/bare/objects", "code/agent", "code/docker", "runnel-data/run"} {
		if err := os.MkdirAll(filepath.Join(w.home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.home, "code/bare/HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sockets := filepath.Join(w.home, "code", "sockets")
	if err := os.MkdirAll(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(sockets, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for from, to := range map[string]string{".ssh": "code/innocent", "code/data/file": "code/file-link"} {
		if err := os.Symlink(filepath.Join(w.home, from), filepath.Join(w.home, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(w.home, ".ssh/id"), filepath.Join(w.home, "code/hard")); err != nil {
		t.Fatal(err)
	}
	protected := []string{filepath.Join(w.home, "runnel-data"), filepath.Join(w.home, "agent-state"), filepath.Join(w.home, ".other-agent")}
	at := func(name string) string { return filepath.Join(w.home, name) }
	for _, path := range []string{
		at(".ssh"), at(".ssh/id"), at(".aws"), at(".aws/none"), w.home, at(".config"), at(".mozilla"), at(".other-agent"), at(".other-agent/projects"), "/home/somebody/.other-agent/login", at(".local"), at(".local/share"),
		at("agent-state"), at("code/agent"), at("code/docker"), at("runnel-data"), at("runnel-data/run"), at("code/innocent"), at("code/innocent/id"), at("code/hard"), sockets, sockets + "/s",
		"/", "/home", "/tmp", "/etc", "/etc/shadow", "/run", "/run/docker.sock", "/var/run/docker.sock", "/var/lib", "/var/lib/docker", "/proc/1", "/dev/null", "/dev/shm", "/root/.ssh", "/home/somebody/.ssh/id", "/home/somebody",
		at("code/none"), "code/data",
	} {
		if a, err := (Allowance{Path: path}).Check(protected); err == nil {
			t.Errorf("%s may be read: %+v", path, a)
		}
		if a, err := (Allowance{Path: path, Write: true}).Check(protected); err == nil {
			t.Errorf("%s may be written: %+v", path, a)
		}
	}
	for _, path := range []string{at(".config/x"), at(".cache/y"), at("go/bin"), at("go"), at("tools"), at("code/repo/.git"), at("code/repo/.git/hooks"), at("code/bare"), at("code/bare/objects"), at("code")} {
		if a, err := (Allowance{Path: path, Write: true}).Check(protected); err == nil {
			t.Errorf("%s may be written: %+v", path, a)
		}
	}
	for path, want := range map[string]string{data: data, data + "/file": data + "/file", at("code/file-link"): data + "/file", at("code/repo"): at("code/repo")} {
		for _, write := range []bool{false, true} {
			if a, err := (Allowance{path, write}).Check(protected); err != nil || a.Path != want {
				t.Errorf("%s: %+v, %v", path, a, err)
			}
		}
	}
	if _, err := (Allowance{Path: at(".config/x")}).Check(protected); err != nil {
		t.Error(err)
	}
}

func TestStateOfAnotherAgentIsNeverAllowed(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	other := filepath.Join(w.home, "other-agent")
	if err := os.MkdirAll(filepath.Join(other, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, write := range []bool{false, true} {
		for _, path := range []string{other, filepath.Join(other, "sub")} {
			b := w.box("true")
			b.Allowed = []Allowance{{path, write}}
			if _, _, _, err := b.Command(); err != nil {
				t.Fatalf("without Withheld: %v", err)
			}
			b.Withheld = []string{other}
			if _, _, _, err := b.Command(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s (write: %v) is in the sandbox: %v", path, write, err)
			}
		}
	}
	b := w.box("cat .agent/state/known code/project/file; cat " + data + "/file")
	b.Start, b.Withheld, b.Allowed = "", []string{filepath.Join(w.home, ".agent"), other}, []Allowance{{Path: data}}
	b.Args[1] = "cat " + w.home + "/.agent/state/known " + w.home + "/code/project/file " + data + "/file"
	if out, _ := run(t, b); out != "stateworkallowed" {
		t.Errorf("an agent lacks its own state: %q", out)
	}
}

func TestWritableRepositoryKeepsItsSettings(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	if err := os.MkdirAll(filepath.Join(data, ".git", "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, ".git", "HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.box("cd " + data + "; echo x > .git/hooks/post-checkout && echo hook; echo x > .git/config && echo config; echo x > new && echo new")
	b.Allowed = []Allowance{{data, true}}
	if out, _ := run(t, b); out != "new\n" {
		t.Errorf("written: %q", out)
	}
	confined := w.confined(t, "true")
	confined.Allowed = b.Allowed
	if _, _, _, err := confined.Confined(); err == nil || !strings.Contains(err.Error(), "Use sandbox: project") {
		t.Errorf("Landlock cannot make them read-only: %v", err)
	}
}

// The git directory of a linked worktree is outside of what a person allowed.
func TestAllowedWorktreeDoesNotAllowItsRepository(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	repository := filepath.Join(w.home, "code", "other", ".git")
	own := filepath.Join(repository, "worktrees", "data")
	for _, dir := range []string{own, filepath.Join(repository, "objects")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(data, ".git"): "gitdir: " + own, filepath.Join(own, "gitdir"): filepath.Join(data, ".git"), filepath.Join(repository, "HEAD"): "ref"} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if LinkedTo(filepath.Join(data, ".git")) != repository {
		t.Fatal("this is no linked worktree")
	}
	b := w.box("cat " + repository + "/HEAD; echo x > " + repository + "/x && echo wrote; echo x > " + data + "/.git && echo replaced")
	b.Allowed = []Allowance{{data, true}}
	if out, _ := run(t, b); out != "" {
		t.Errorf("reached: %q", out)
	}
}

func TestSuggestionsAreForExistingPathsThatMayBeAllowed(t *testing.T) {
	w := newWorld(t)
	data := w.homed(t)
	t.Setenv("PATH", "/usr/bin:/bin")
	link := filepath.Join(w.home, "code", "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.home, ".ssh"), filepath.Join(w.home, "code", "innocent")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", filepath.Join(w.home, "code", "loop")); err != nil {
		t.Fatal(err)
	}
	dirs := []string{w.project}
	for _, tt := range []struct {
		path  string
		write bool
		want  string
	}{
		{data, false, data},
		{data + "/sub/../file", false, data + "/file"},
		{link + "/file", false, data + "/file"},
		{data + "/new", true, data},
		{data + "/new", false, ""},
		{data + "/none/new", true, ""},
		{w.project + "/file", true, ""},
		{filepath.Join(w.home, ".ssh/id"), false, ""},
		{filepath.Join(w.home, ".ssh/new"), true, ""},
		{filepath.Join(w.home, "code/innocent/id"), false, ""},
		{filepath.Join(w.home, "code/loop"), false, ""},
		{w.home, false, ""},
		{filepath.Join(w.home, ".claude"), false, ""},
		{"/usr/bin/env", false, ""},
		{"/usr/new", true, ""},
		{"/etc/shadow", false, ""},
		{"/proc/1/environ", false, ""},
		{"/dev/null", true, ""},
		{"relative", false, ""},
		{"/", false, ""},
	} {
		got, ok := NewSuggester(dirs, nil).Suggest(Allowance{tt.path, tt.write})
		if ok != (tt.want != "") || ok && got != (Allowance{tt.want, tt.write}) {
			t.Errorf("%s, write %v: %+v, %v; want %q", tt.path, tt.write, got, ok, tt.want)
		}
	}
	if got, ok := NewSuggester(dirs, []string{data}).Suggest(Allowance{Path: data}); ok {
		t.Errorf("a protected path is suggested: %+v", got)
	}
}

func TestRemoteMountsAreKnown(t *testing.T) {
	dirs, ok := remoteMounts()
	if !ok || !dirs["/proc"] || dirs["/"] {
		t.Errorf("got %v, %v", dirs, ok)
	}
}
