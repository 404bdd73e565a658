package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/confine"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/testload"
)

// confined returns a box that limits files, and runs a script.
func (w world) confined(t *testing.T, script string) Box {
	b := w.box(script)
	b.Own, b.Socket = filepath.Join(t.TempDir(), "own"), ""
	b.Scratch = filepath.Join(filepath.Dir(b.Own), "copies")
	return b
}

func runConfined(t *testing.T, b Box) (string, int) {
	t.Helper()
	path, args, env, err := b.Confined()
	if err != nil {
		t.Fatal(err)
	}
	return output(t, proc.Command{Path: path, Args: args, Env: env, Dir: b.Dir})
}

func TestFilesShowsOnlyTheProjectAndTheAgentsOwnState(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	if err := os.WriteFile(filepath.Join(w.home, ".agent", "copied"), []byte("copied"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := w.confined(t, `
		exec 2>/dev/null
		cat file; echo more >> file && echo wrote
		mkdir sub && mv file sub/file && mv sub/file file && echo moved
		cat $HOME/.agent/state/known $HOME/.agent/settings $HOME/.agent/copied; echo
		echo new > $HOME/.agent/state/new && echo kept
		echo x > $HOME/.agent/settings || echo no settings
		echo changed > $HOME/.agent/copied && echo x > $HOME/.agent/other && echo dropped
		cat `+w.home+`/.ssh/id `+w.home+`/code/other/file || echo no secret
		cat $HOME/.ssh/id $HOME/code/other/file || echo no secret at home
		ls -A `+w.home+` || echo no list
		echo x > /usr/x || echo no usr
		echo x > `+w.home+`/x || echo no home
		echo x > /tmp/x || echo no shared tmp
		echo x > $TMPDIR/x && echo tmp
		ls /dev/pts || echo no terminals
		env | grep -c -e XDG_RUNTIME_DIR -e SSH_AUTH_SOCK
	`)
	b.Copies = []string{filepath.Join(w.home, ".agent", "copied")}
	b.Env = append(b.Env, "XDG_RUNTIME_DIR=/run/user/0", "SSH_AUTH_SOCK=/run/agent.sock")
	out, _ := runConfined(t, b)
	want := "workwrote\nmoved\nstatesettingscopied\nkept\nno settings\ndropped\nno secret\nno secret at home\nno list\nno usr\nno home\nno shared tmp\ntmp\nno terminals\n0\n"
	if out != want {
		t.Errorf("output\n%s\nwant\n%s", out, want)
	}
	for path, want := range map[string]string{"code/project/file": "workmore\n", ".agent/state/new": "new\n", ".agent/settings": "settings", ".agent/copied": "copied"} {
		if got, err := os.ReadFile(filepath.Join(w.home, path)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.home, ".agent/other")); err == nil {
		t.Error("the agent wrote beside its state")
	}
}

// TestFilesMovesVariablesThatNameTheAgentsFolders has an agent whose folder is
// outside of the home directory.
func TestFilesMovesVariablesThatNameTheAgentsFolders(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	data := filepath.Join(filepath.Dir(w.home), "data")
	own := filepath.Join(data, "agent")
	b := w.confined(t, `echo kept > $AGENT_HOME/state/file; echo dropped > $AGENT_HOME/file; echo dropped > $DATA/agent/other; mkdir -p $CACHE/deep; echo $PROGRAM $SHOWN $AGENT_TEMP`)
	b.Private, b.State, b.TempVars = []string{own}, []string{filepath.Join(own, "state")}, []string{"AGENT_TEMP"}
	b.Env = append(b.Env, "AGENT_HOME="+own, "DATA="+data, "PROGRAM=/usr/bin/env", "SHOWN="+w.project, "CACHE="+filepath.Join(w.home, ".cache"))
	if out, code := runConfined(t, b); code != 0 || out != "/usr/bin/env "+w.project+" "+filepath.Join(real(b.Own), ownTemp)+"\n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(own, "state", "file")); err != nil || string(text) != "kept\n" {
		t.Errorf("the state is %q, %v", text, err)
	}
	for _, name := range []string{"file", "other"} {
		if _, err := os.Stat(filepath.Join(own, name)); err == nil {
			t.Errorf("%s was not dropped", name)
		}
	}
}

func TestFilesRefusesExposedDirectories(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	data := filepath.Join(w.home, "code", "data")
	for _, dir := range []string{"/", "/etc", w.home, filepath.Dir(w.home), filepath.Join(w.home, ".ssh"), filepath.Join(w.home, ".agent", "state"), data, filepath.Join(w.home, "code")} {
		b := w.confined(t, "true")
		b.Dir, b.Protected = dir, []string{data}
		_, _, _, err := b.Confined()
		if _, ok := errors.AsType[*ExposedError](err); !ok {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestFilesRefusesWhatItCannotHide has an agent with a hidden directory in a
// writable one.
func TestFilesRefusesWhatItCannotHide(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	b := w.confined(t, "true")
	b.Private = append(b.Private, filepath.Join(b.State[0], "bin"))
	_, _, _, err := b.Confined()
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Why, "cannot hide "+b.Private[1]) {
		t.Errorf("%v", err)
	}
}

func TestFilesNeedsLandlock(t *testing.T) {
	defer func() { version = confine.Version }()
	for v, want := range map[int]string{0: "does not have or has switched off", 1: "this kernel has version 1", 2: "this kernel has version 2", 3: "", 7: ""} {
		version = func() int { return v }
		err := CheckFiles()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("version %d: %v", v, err)
		}
		if want == "" {
			continue
		}
		if _, _, _, err := (Box{Dir: "/"}).Confined(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestFilesNeverFollowsReplacedDirectories replaces a directory of the session
// by a link while sandboxes are being made.
func TestFilesNeverFollowsReplacedDirectories(t *testing.T) {
	testload.TakesLong(t)
	w := newWorldFor(t, CheckFiles())
	raced, link := filepath.Join(w.project, "package"), filepath.Join(w.project, "link")
	if err := os.Mkdir(raced, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.home, ".ssh"), link); err != nil {
		t.Fatal(err)
	}
	exchange(t, raced, link)
	tries := 20
	if os.Getenv("RUNNEL_LONG") != "" {
		tries = 200
	}
	for range tries {
		b := w.confined(t, "cat "+filepath.Join(raced, "id"))
		b.Dir = raced
		path, args, env, err := b.Confined()
		if err != nil {
			continue // noticed at once
		}
		if out, _ := output(t, proc.Command{Path: path, Args: args, Env: env, Dir: "/"}); strings.Contains(out, "secret") {
			t.Fatal("a directory outside of the project is in the sandbox")
		}
	}
}

// TestFilesHidesWhatOnlyRootMayRead runs as root, which may read every file.
func TestFilesHidesWhatOnlyRootMayRead(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	const shadow = "/etc/shadow"
	if unix.Access(shadow, unix.R_OK) != nil {
		t.Skip("this user cannot read it anyway")
	}
	out, _ := runConfined(t, w.confined(t, "cat "+shadow+" >/dev/null 2>&1 && echo read; cat /etc/passwd >/dev/null && echo passwd; grep CapEff /proc/self/status"))
	if want := "passwd\nCapEff:\t0000000000000000\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestProtectedPathInAToolchainIsHidden(t *testing.T) {
	w := newWorldFor(t, CheckFiles())
	tools := filepath.Join(w.home, ".local", "bin")
	for path, text := range map[string]string{"tool": "#!/bin/sh\necho ran", "data/secret": "secret"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(tools, path)), 0o700), os.WriteFile(filepath.Join(tools, path), []byte(text), 0o700)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	b := w.confined(t, tools+"/tool; cat "+tools+"/data/secret 2>/dev/null || echo hidden")
	b.Protected = []string{filepath.Join(tools, "data")}
	if out, _ := runConfined(t, b); out != "ran\nhidden\n" {
		t.Errorf("%q", out)
	}
}
