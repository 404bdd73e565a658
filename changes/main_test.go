package changes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testcache"
)

// The commands create their private directories in a cache of the test.
func TestMain(m *testing.M) {
	cache, err := os.MkdirTemp("", "runnel-cache-")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		panic(err)
	}
	code := testcache.Main{M: m}.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

// A rig is a repository with a Git of a user who has a name.
type rig struct {
	t      *testing.T
	git    *Git
	home   string
	folder Folder
}

// newRig creates a repository with one commit, in a folder that is not trusted.
func newRig(t *testing.T) *rig {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, dir := filepath.Join(base, "home"), filepath.Join(base, "project")
	rg := &rig{t: t, home: home, folder: Folder{Dir: dir}}
	rg.write(filepath.Join(home, ".gitconfig"), settings)
	rg.git = New(rg.env())
	rg.put("a.txt", first)
	rg.put("sub/b.txt", "b\n")
	git, err := firstCommit()
	if err == nil {
		err = os.CopyFS(filepath.Join(dir, ".git"), os.DirFS(git))
	}
	if err != nil {
		t.Fatal(err)
	}
	rg.run("update-index", "--refresh") // the index has the times of other files
	return rg
}

// firstCommit makes a repository with one commit, and returns its git directory.
// Each rig copies that directory, which takes less time than three runs of git.
var firstCommit = sync.OnceValues(func() (string, error) {
	home, err := os.MkdirTemp(os.Getenv("XDG_CACHE_HOME"), "first-")
	rg := &rig{home: home, folder: Folder{Dir: filepath.Join(home, "project")}}
	err = errors.Join(err, os.MkdirAll(filepath.Join(rg.folder.Dir, "sub"), 0o755))
	for path, text := range map[string]string{".gitconfig": settings, "project/a.txt": first, "project/sub/b.txt": "b\n"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(home, path), []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "--quiet", "--template="}, {"add", "."}, {"commit", "--quiet", "--message", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = rg.folder.Dir, rg.env()
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = errors.Join(err, failed, errors.New(string(out)))
		}
	}
	return filepath.Join(rg.folder.Dir, ".git"), err
})

// The settings of a rig's user, and a file of the first commit.
const (
	settings = "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
	first    = "one\ntwo\nthree\n"
)

func (rg *rig) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + rg.home, "GIT_CONFIG_NOSYSTEM=1"}
}

func (rg *rig) write(path, text string) {
	rg.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		rg.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		rg.t.Fatal(err)
	}
}

// put writes a file of the folder.
func (rg *rig) put(name, text string) {
	rg.t.Helper()
	rg.write(filepath.Join(rg.folder.Dir, name), text)
}

// read returns a file of the folder, "" if it does not exist.
func (rg *rig) read(name string) string {
	rg.t.Helper()
	b, err := os.ReadFile(filepath.Join(rg.folder.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		rg.t.Fatal(err)
	}
	return string(b)
}

// run runs git as the user does, and returns its output.
func (rg *rig) run(args ...string) string {
	rg.t.Helper()
	cmd := exec.CommandContext(rg.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = rg.folder.Dir, rg.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		rg.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (rg *rig) status() Status {
	rg.t.Helper()
	st, err := rg.git.Status(rg.t.Context(), rg.folder)
	if err != nil {
		rg.t.Fatal(err)
	}
	return st
}

// files returns the files of a status, each on one line.
func (rg *rig) files() string {
	rg.t.Helper()
	st := rg.status()
	if st.State != StateReady {
		rg.t.Fatalf("%s: %s", st.State, st.Problem)
	}
	var out []string
	for _, e := range st.Files {
		s := e.Path
		if e.From != "" {
			s = e.From + "→" + s
		}
		if e.Staged != "" {
			s += " staged:" + string(e.Staged)
		}
		if e.Unstaged != "" {
			s += " unstaged:" + string(e.Unstaged)
		}
		for name, is := range map[string]bool{" untracked": e.Untracked, " conflict": e.Conflict, " submodule": e.Submodule} {
			if is {
				s += name
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func (rg *rig) diff(path string, side Side) Diff {
	rg.t.Helper()
	d, err := rg.git.Diff(rg.t.Context(), rg.folder, path, side, 3)
	if err != nil {
		rg.t.Fatal(err)
	}
	return d
}

// lines returns the lines of a diff, with | between them.
func (rg *rig) lines(path string, side Side) string {
	rg.t.Helper()
	var out []string
	for _, h := range rg.diff(path, side).Hunks {
		out = append(out, h.Lines...)
	}
	return strings.Join(out, "|")
}

func (rg *rig) stage(paths ...string) {
	rg.t.Helper()
	if err := rg.git.Stage(rg.t.Context(), rg.folder, choices(paths...), true); err != nil {
		rg.t.Fatal(err)
	}
}

func (rg *rig) unstage(paths ...string) {
	rg.t.Helper()
	if err := rg.git.Stage(rg.t.Context(), rg.folder, choices(paths...), false); err != nil {
		rg.t.Fatal(err)
	}
}

func choices(paths ...string) (out []Choice) {
	for _, p := range paths {
		out = append(out, Choice{Path: p})
	}
	return out
}

func (rg *rig) commit(message string) Committed {
	rg.t.Helper()
	c, err := rg.git.Commit(rg.t.Context(), rg.folder, message, rg.status().Seen)
	if err != nil {
		rg.t.Fatal(err)
	}
	return c
}

func (rg *rig) revert(path string, side Side) Reverted {
	rg.t.Helper()
	out, err := rg.git.Revert(rg.t.Context(), rg.folder, path, rg.diff(path, side).Seen, true)
	if err != nil {
		rg.t.Fatal(err)
	}
	return out
}

// expect fails unless err has the code and contains the text.
func expect(t *testing.T, err error, code runnel.Code, text string) {
	t.Helper()
	if runnel.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s with %q", err, code, text)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
