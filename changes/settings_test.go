package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// counted replaces git by a script that notes its arguments. The returned
// function returns how many runs have had this word among their arguments.
func (rg *rig) counted() (runs func(word string) int) {
	rg.t.Helper()
	notes := rg.replaceGit(func(git, notes string) string {
		return fmt.Sprintf("#!/bin/sh\necho \" $* \" >> '%s'\nexec '%s' \"$@\"\n", notes, git)
	})
	return func(word string) int {
		b, err := os.ReadFile(notes)
		if err != nil {
			rg.t.Fatal(err)
		}
		return strings.Count(string(b), " "+word+" ")
	}
}

func TestStatusReadsTheSettingsOnce(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		rg := newRig(t)
		rg.folder.Closed = closed
		runs := rg.counted()
		rg.put("a.txt", "staged\n")
		rg.run("add", ".")
		rg.put("a.txt", "changed\n")
		if st := rg.status(); st.State != StateReady || len(st.Files) != 1 || st.Author != "Ada <ada@example.com>" {
			t.Errorf("got %+v", st)
		}
		if n := runs("--show-origin"); n != 1 {
			t.Errorf("closed %v: git listed the settings %d times", closed, n)
		}
		rg.run("config", "user.name", "Grace")
		if st := rg.status(); st.Author != "Grace <ada@example.com>" {
			t.Errorf("closed %v: the next status has the author %q", closed, st.Author)
		}
	}
}

// A command that changes the repository may change the settings, and must not
// obey outdated ones.
func TestSettingsAreReadAgainForEachChange(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	r, st, err := rg.git.open(t.Context(), rg.folder)
	if err != nil || st.State != StateReady {
		t.Fatalf("%+v, %v", st, err)
	}
	author := func() string {
		t.Helper()
		got, err := rg.git.author(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	equal(t, "author", author(), "Ada <ada@example.com>")
	rg.run("config", "user.name", "Grace")
	equal(t, "author of the same read", author(), "Ada <ada@example.com>")
	rg.put("a.txt", "changed\n")
	if _, err := rg.git.within(t.Context(), r, command{args: []string{"commit", "--quiet", "--all", "--message", "second"}, time: writeTime, most: maxList}); err != nil {
		t.Fatal(err)
	}
	equal(t, "author of the commit", rg.run("log", "-1", "--format=%an"), "Grace")
	rg.run("config", "user.name", "Edsger")
	equal(t, "author after the commit", author(), "Edsger <ada@example.com>")
}

// Python runs a module of the folder in which it is started in place of an
// installed one. "nbstripout --install --global" makes such a command a filter of the
// user's configuration.
func TestFilterRunsNoModuleOfPythonInTheFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	python, mark := filepath.Join(rg.t.TempDir(), "python"), filepath.Join(rg.home, "ran")
	rg.write(python, "#!/bin/sh\n[ -n \"$PYTHONSAFEPATH\" ] || [ ! -e \"$2.py\" ] || touch "+mark+"\ncat $4\n")
	if err := os.Chmod(python, 0o755); err != nil {
		t.Fatal(err)
	}
	rg.write(filepath.Join(rg.home, ".gitconfig"), settings+fmt.Sprintf("[filter \"nbstripout\"]\n\tclean = %s -m nbstripout\n[diff \"ipynb\"]\n\ttextconv = %s -m nbstripout -t\n", python, python))
	rg.git = New(rg.env())
	rg.put(".gitattributes", "*.ipynb filter=nbstripout diff=ipynb\n")
	rg.put("a.ipynb", "first\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "a notebook")
	rg.put("nbstripout.py", "")
	for _, trusted := range []bool{false, true} { // true proves that the test can fail
		rg.folder.Trusted = trusted
		rg.put("a.ipynb", fmt.Sprintf("trusted %t\n", trusted))
		rg.status()
		if _, err := rg.git.Diff(t.Context(), rg.folder, "a.ipynb", Unstaged, 3); err != nil {
			t.Fatal(err)
		}
		rg.stage("a.ipynb")
		if _, err := os.Stat(mark); (err == nil) != trusted {
			t.Errorf("trusted %t: a module of the folder ran: %t", trusted, err == nil)
		}
	}
}
