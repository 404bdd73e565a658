package acp

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// An agent that compares paths by their text would read any file of the user
// without asking, behind a link that an untrusted folder contains.
func TestLinksOutOfAnUntrustedFolderAreNotFollowedWithoutAsking(t *testing.T) {
	names := []string{"opencode"}
	if os.Getenv("RUNNEL_LONG") != "" {
		names = append(names, "claude-agent-acp", "copilot", "gemini", "qwen")
	}
	eachOf(t, names, func(t *testing.T, r *rig) {
		outside := filepath.Join(r.Home.Dir, "outside")
		r.put(filepath.Join(outside, "one.txt"), "canary-one\n")
		r.put(filepath.Join(outside, "two.txt"), "canary-two\n")
		r.Write("in.txt", "canary-inside\n")
		r.put(r.File("sub/a.txt"), "")
		for path, to := range map[string]string{
			"file.txt": filepath.Join(outside, "one.txt"), "sub/folder": "../../home/outside", "alias": "sub", "inner.txt": "in.txt",
		} {
			if err := os.Symlink(to, r.File(path)); err != nil {
				t.Fatal(err)
			}
		}
		r.Play(calls(r.words().Read(r.File("inner.txt"))), said)
		if _, asked := r.DenyAll(); asked != 0 || !r.ModelReceived("canary-inside") {
			t.Errorf("a link in the folder was not read, or asked about %d times", asked)
		}
		reads := []fakemodel.Block{
			r.words().Read(r.File("file.txt")), r.words().Read(r.File("sub/folder/two.txt")), r.words().Read(r.File("alias/folder/two.txt")),
			r.words().Read(r.File("sub/./folder/../folder/two.txt")),
		}
		for _, read := range reads {
			r.Play(calls(read), said)
			if _, asked := r.DenyAll(); asked == 0 && r.Agent.Name != "gemini" { // which denies it itself
				t.Errorf("%s was not asked about", read.Input)
			}
		}
		for _, canary := range []string{"canary-one", "canary-two"} {
			if r.ModelReceived(canary) {
				t.Errorf("the model received %s", canary)
			}
		}
	})
}

// opencode replaces ~ and $HOME at the beginning of a pattern by the home
// directory, and reads some characters as patterns.
func TestOpencodeAsksAtLinksWithAnyName(t *testing.T) {
	agentrig.NeedLong(t)
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		r.git(r.Home.Project, "init", "-q") // opencode then names files by their paths in the repository
		outside := filepath.Join(r.Home.Dir, "outside")
		r.put(filepath.Join(outside, "a.txt"), "canary\n")
		paths := []string{"~", "$HOME/a.txt", "$HOME.x", "__proto__", "constructor/a.txt", "7", "a*b", `a\b/a.txt`, "[a]", "a *", " ", "a\nb/a.txt", "e\u0301", "😀/a.txt"}
		for _, path := range paths {
			name, folder := strings.CutSuffix(path, "/a.txt")
			to := filepath.Join(outside, "a.txt")
			if folder {
				to = outside
			}
			if err := os.Symlink(to, r.File(name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range paths {
			r.Play(calls(r.words().Read(r.Home.Project+"/"+path)), said)
			if _, asked := r.DenyAll(); asked == 0 {
				t.Errorf("%q was not asked about", path)
			}
		}
		if r.ModelReceived("canary") {
			t.Error("the model received a file behind a link")
		}
	})
}

// opencode replaces ~ and $HOME at the beginning of a pattern. Git, and so
// opencode, ignores a .git that is no repository.
func TestLinksOutOfARepositoryAreNotFollowedWhateverTheirNames(t *testing.T) {
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		outside := filepath.Join(r.Home.Dir, "outside")
		r.put(filepath.Join(outside, "one.txt"), "canary-one\n")
		r.git(r.Home.Project, "init", "-q")
		r.put(r.File("sub/.git/no-repository"), "")
		r.put(r.File("above.txt"), "canary-inside\n")
		r.Opt.Dir = r.File("sub")
		r.Play(calls(r.words().Read(r.File("above.txt"))), said)
		if _, asked := r.DenyAll(); asked != 0 || !r.ModelReceived("canary-inside") {
			t.Errorf("the folder is in no repository, or opencode asked %d times", asked)
		}
		r.Close()
		names := []string{"~", "$HOME", "$HOMEa", "$a", "~a", "above"}
		for _, name := range names {
			if err := os.Symlink(outside, r.File(name)); err != nil {
				t.Fatal(err)
			}
		}
		r.Open()
		for _, name := range names {
			r.Play(calls(r.words().Read(r.File(name+"/one.txt"))), said)
			if _, asked := r.DenyAll(); asked == 0 {
				t.Errorf("%s was not asked about", name)
			}
		}
		if r.ModelReceived("canary-one") {
			t.Error("the model received a file behind a link")
		}
	})
}

// With acceptEdits, opencode does not ask before an edit. A link leads it to
// files outside of the folder.
func TestOpencodeAsksBeforeAnEditBehindALink(t *testing.T) {
	agentrig.NeedLong(t)
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		victim := filepath.Join(r.Home.Dir, "victim")
		r.put(victim, "precious\n")
		for path, to := range map[string]string{"link": victim, "to-new": victim + "-new"} {
			if err := os.Symlink(to, r.File(path)); err != nil {
				t.Fatal(err)
			}
		}
		r.Opt.PermissionMode = runnel.ModeAcceptEdits
		r.Play(calls(r.words().Write(r.File("link"), "evil")), said)
		_, asked := r.DenyAll()
		if got, err := os.ReadFile(victim); asked == 0 || string(got) != "precious\n" {
			t.Errorf("asked %d times; the file behind the link is %q, %v", asked, got, err)
		}
		r.Play(calls(r.words().Write(r.File("to-new"), "evil")), said)
		if _, asked := r.DenyAll(); asked == 0 || agentrig.Exists(victim+"-new") {
			t.Errorf("asked %d times before it made a file behind a link", asked)
		}
	})
}

func TestLinksOutOfARepository(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	for name, test := range map[string]struct {
		links map[string]string // by their paths
		mode  fs.FileMode       // of the folder sub
		want  []string
	}{
		"none":                     {nil, 0o700, nil},
		"inside":                   {map[string]string{"a": "sub", "sub/b": "../sub", "sub/c": "."}, 0o700, nil},
		"outside":                  {map[string]string{"a": "/", "sub/b": "../.."}, 0o700, []string{"a", "b"}},
		"to nothing inside":        {map[string]string{"a": "missing", "sub/b": "../missing/b"}, 0o700, nil},
		"to nothing outside":       {map[string]string{"a": "/missing", "sub/b": "../../missing"}, 0o700, []string{"a", "b"}},
		"to nothing behind a link": {map[string]string{"a": "sub/b/new", "sub/b": "../.."}, 0o700, []string{"a", "b"}},
		"to a link to nothing":     {map[string]string{"a": "sub/b", "sub/b": "../../missing"}, 0o700, []string{"a", "b"}},
		"in a folder not to list":  {map[string]string{"sub/b": "/"}, 0o300, []string{"*"}},
		"in a folder not to enter": {map[string]string{"a": "/", "sub/b": "/"}, 0o600, []string{"a"}},
		"in a closed folder":       {map[string]string{"sub/b": "/"}, 0, nil},
	} {
		dir := t.TempDir()
		sub := filepath.Join(dir, "sub")
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, to := range test.links {
			if err := os.Symlink(to, filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(sub, test.mode); err != nil {
			t.Fatal(err)
		}
		if got := linksOutside(dir); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if err := os.Chmod(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPermissionsOfOpencodeAtLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	const edit, search = `"edit*":{"*":"ask"}`, `"glob*":{"*":"ask"},"grep*":{"*":"ask"},"list*":{"*":"ask"}`
	const behind = `{"*/l":"ask","*/l/*":"ask","l":"ask","l/*":"ask"}`
	for name, test := range map[string]struct {
		mode        runnel.PermissionMode
		given, want string
	}{
		"default": {"", `{"edit":"ask"}`, `{"edit":"ask",` + edit + `,` + search + `,"read*":` + behind + `}`},
		"edits":   {runnel.ModeAcceptEdits, `{"edit":"allow"}`, `{"edit":"allow",` + edit + `,` + search + `,"read*":` + behind + `}`},
		"denied":  {"", `{"edit":"deny","read":"deny"}`, `{"edit":"deny",` + search + `,"read":"deny"}`},
		"dontAsk": {runnel.ModeDontAsk, `{"edit":"deny"}`, `{"edit":"deny",` + strings.ReplaceAll(search+`,"read*":`+behind, "ask", "deny") + `}`},
		"bypass":  {runnel.ModeBypass, `{"edit":"allow"}`, `{"edit":"allow"}`},
	} {
		env := opencodeAtLinks([]string{"A=b", "OPENCODE_PERMISSION=" + test.given}, runnel.Options{Dir: dir, PermissionMode: test.mode})
		if !slices.Equal(env, []string{"A=b", "OPENCODE_PERMISSION=" + test.want}) {
			t.Errorf("%s: %q", name, env)
		}
	}
	given := []string{`OPENCODE_PERMISSION={"edit":"allow"}`}
	if env := opencodeAtLinks(given, runnel.Options{Dir: t.TempDir(), PermissionMode: runnel.ModeAcceptEdits}); !slices.Equal(env, given) {
		t.Errorf("without a link: %q", env)
	}
}

// A patch can also move a file. opencode asks about the path from which it moves
// the file only.
func TestOpencodeAsksBeforeItMovesAFileBehindALink(t *testing.T) {
	agentrig.NeedLong(t)
	eachOf(t, []string{"opencode"}, func(t *testing.T, r *rig) {
		outside := filepath.Join(r.Home.Dir, "outside")
		r.put(filepath.Join(outside, "a.txt"), "precious\n")
		if err := os.Symlink(outside, r.File("link")); err != nil {
			t.Fatal(err)
		}
		r.Write("in.txt", "one\n")
		r.put(filepath.Join(r.Home.Dir, ".config", "opencode", "opencode.json"),
			`{"provider":{"fake":{"models":{"gpt-5-fake":{"name":"G","tool_call":true,"limit":{"context":200000,"output":32000}}}}}}`) // the tool apply_patch is for such models
		r.Opt.PermissionMode, r.Opt.Model = runnel.ModeAcceptEdits, "fake/gpt-5-fake"
		const patch = "*** Begin Patch\n*** Update File: in.txt\n*** Move to: link/a.txt\n@@\n-one\n+evil\n*** End Patch"
		r.Play(calls(fakemodel.Call("apply_patch", map[string]any{"patchText": patch})), said)
		_, asked := r.DenyAll()
		if got, err := os.ReadFile(filepath.Join(outside, "a.txt")); asked == 0 || string(got) != "precious\n" {
			t.Errorf("asked %d times; the file behind the link is %q, %v", asked, got, err)
		}
	})
}
