package changes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testload"
)

// shows reports whether the status or a diff of the folder contains a text.
func (rg *rig) shows(text string) bool {
	rg.t.Helper()
	st, err := rg.git.Status(rg.t.Context(), rg.folder)
	if err != nil {
		return false
	}
	for _, f := range st.Files {
		for _, side := range []Side{Staged, Unstaged} {
			d, err := rg.git.Diff(rg.t.Context(), rg.folder, f.Path, side, 3)
			if err == nil && strings.Contains(strings.Join(linesOf(d), "\n"), text) {
				return true
			}
		}
	}
	return false
}

// A sandbox may write everything below .git but the configuration and the hooks,
// and an archive brings its own .git. Git of the server would follow what they
// contain to the content of another repository. Somebody who may see only this
// folder must not see that.
func TestStatusShowsNothingOfAnotherRepository(t *testing.T) {
	t.Parallel()
	link := func(t *testing.T, to, path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	shared := func(t *testing.T, rg, other *rig, part string) {
		link(t, filepath.Join(other.folder.Dir, part), filepath.Join(rg.folder.Dir, part))
	}
	alternates := func(rg, other *rig) {
		rg.put(".git/objects/info/alternates", filepath.Join(other.folder.Dir, ".git/objects")+"\n")
	}
	for name, lead := range map[string]func(t *testing.T, rg, other *rig){
		"a linked branch and its objects": func(t *testing.T, rg, other *rig) {
			alternates(rg, other)
			shared(t, rg, other, ".git/refs/heads/main")
		},
		"a known commit and its objects": func(t *testing.T, rg, other *rig) {
			alternates(rg, other)
			rg.put(".git/refs/heads/main", other.run("rev-parse", "HEAD")+"\n")
		},
		"linked packs": func(t *testing.T, rg, other *rig) {
			other.run("repack", "-a", "-d", "--quiet")
			rg.put(".git/refs/heads/main", other.run("rev-parse", "HEAD")+"\n")
			if err := os.RemoveAll(filepath.Join(rg.folder.Dir, ".git/objects/pack")); err != nil {
				t.Fatal(err)
			}
			shared(t, rg, other, ".git/objects/pack")
		},
		"linked files of packs": func(t *testing.T, rg, other *rig) {
			other.run("repack", "-a", "-d", "--quiet")
			rg.put(".git/refs/heads/main", other.run("rev-parse", "HEAD")+"\n")
			packs, err := filepath.Glob(filepath.Join(other.folder.Dir, ".git/objects/pack/*"))
			if err != nil || len(packs) == 0 {
				t.Fatal(packs, err)
			}
			for _, p := range packs {
				shared(t, rg, other, ".git/objects/pack/"+filepath.Base(p))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rg, other := newRig(t), newRig(t)
			rg.folder.Closed = true
			other.put("plans.txt", "a secret\n")
			other.run("add", ".")
			other.run("commit", "--quiet", "--message", "secret")
			lead(t, rg, other)
			if rg.shows("a secret") {
				t.Error("a diff shows a file of another repository")
			}
			if st := rg.status(); st.State != StateRefused || st.Problem == "" {
				t.Errorf("got %s: %s", st.State, st.Problem)
			}
			rg.folder.Closed = false
			if !rg.shows("a secret") {
				t.Error("the attack does not work on an open folder")
			}
		})
	}
}

// The files in info of a git directory contain patterns. A link in the place of
// one would show which lines another file has.
func TestPatternsAreNotReadThroughLinks(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	outside := filepath.Join(filepath.Dir(rg.folder.Dir), "patterns")
	rg.write(outside, "b.new\n")
	rg.put("a.new", "")
	rg.put("b.new", "")
	exclude := filepath.Join(rg.folder.Dir, ".git", "info", "exclude")
	rg.put(".git/info/exclude", "a.new\n")
	equal(t, "files", rg.files(), "b.new unstaged:create untracked")
	if err := os.Remove(exclude); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, exclude); err != nil {
		t.Fatal(err)
	}
	equal(t, "files with a link", rg.files(), "a.new unstaged:create untracked, b.new unstaged:create untracked")
}

// A list of further objects may be empty, and may name folders in the folder
// itself.
func TestStatusAcceptsAlternatesInTheFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list  string // OTHER is another repository
		state State
	}{
		"empty":                        {"", StateReady},
		"comments":                     {"# none\n\n", StateReady},
		"absolute":                     {"FOLDER/lent/objects\n", StateReady},
		"relative, without newline":    {"# own\n../../lent/objects", StateReady},
		"one elsewhere":                {"../../lent/objects\nOTHER/.git/objects\n", StateRefused},
		"relative elsewhere":           {"../../../../../../OTHER/.git/objects\n", StateRefused},
		"quoted":                       {`"OTHER/.git/objects"` + "\n", StateRefused},
		"by a link":                    {"../../linked/objects\n", StateRefused},
		"a folder with its own list":   {"../../listing\n", StateRefused},
		"a folder with a link":         {"../../linked\n", StateRefused},
		"a folder that does not exist": {"../../absent\n", StateRefused},
		"too long":                     {strings.Repeat("#", maxAlternatesSize) + "\n", StateRefused},
		"too many":                     {strings.Repeat("../../lent/objects\n", maxAlternatesEntries+1), StateRefused},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "absolute" && name != "one elsewhere" {
				testload.TakesLong(t)
			}
			t.Parallel()
			rg, other := newRig(t), newRig(t)
			in := func(name string) string { return filepath.Join(rg.folder.Dir, name) }
			rg.put("linked/x", "")
			rg.put(".git/info/exclude", "/lent\n/linked\n/listing\n")
			rg.put("listing/info/alternates", filepath.Join(other.folder.Dir, ".git", "objects")+"\n")
			if err := os.Symlink(filepath.Join(other.folder.Dir, ".git", "objects"), in("linked/objects")); err != nil {
				t.Fatal(err)
			}
			lent := strings.Contains(c.list, "lent/")
			if lent { // the older objects are only there
				if err := os.MkdirAll(in("lent"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(in(".git/objects"), in("lent/objects")); err != nil {
					t.Fatal(err)
				}
			}
			rg.put(".git/objects/info/alternates", strings.NewReplacer("FOLDER", rg.folder.Dir, "OTHER", other.folder.Dir).Replace(c.list))
			rg.put("a.txt", "one\nchanged\nthree\n")
			rg.folder.Closed = true
			st := rg.status()
			if st.State != c.state {
				t.Fatalf("got %s: %s", st.State, st.Problem)
			}
			if c.state == StateRefused {
				return
			}
			equal(t, "diff", rg.lines("a.txt", Unstaged), " one|-two|+changed| three")
			rg.stage("a.txt")
			rg.commit("second")
			equal(t, "files", rg.files(), "")
		})
	}
}
