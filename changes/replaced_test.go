package changes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testload"
)

// replaceGit replaces git by the shell script that script returns. script
// receives the path of git, and that of an empty file in which the shell script
// may write notes. replaceGit returns the path of that file.
func (rg *rig) replaceGit(script func(git, notes string) string) (notes string) {
	rg.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		rg.t.Fatal(err)
	}
	base := filepath.Dir(rg.folder.Dir)
	bin, notes := filepath.Join(base, "bin"), filepath.Join(base, "notes")
	rg.write(notes, "")
	if err := testexec.Write(filepath.Join(bin, "git"), script(git, notes)); err != nil {
		rg.t.Fatal(err)
	}
	env := rg.env()
	env[0] = "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	rg.git = New(env)
	rg.git.unconfined = true // the script works outside of the folder, as an agent at the same time could
	return notes
}

// around replaces git by a script that runs shell commands before and after
// each git that reads the status or a diff. They run in the git directory, and
// $n is the number of that run.
func (rg *rig) around(before, after string) (runs func() int) {
	rg.t.Helper()
	count := rg.replaceGit(func(git, notes string) string {
		return fmt.Sprintf(`#!/bin/sh
case " $* " in *" status "*|*" diff "*) ;; *) exec '%[1]s' "$@" ;; esac
echo >> '%[2]s'; n=$(wc -l < '%[2]s')
(cd '%[3]s/.git' && %[4]s)
'%[1]s' "$@"; code=$?
(cd '%[3]s'; %[5]s)
exit $code
`, git, notes, rg.folder.Dir, before, after)
	})
	return func() int {
		b, err := os.ReadFile(count)
		if err != nil {
			rg.t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
}

// While git reads, an agent replaces a part of its repository by a link to
// another one, and puts it back before the server looks again.
func TestStatusNoticesReplacedObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"objects":                           {`mv objects own && ln -s "$other/objects" objects`, `cd .git && rm objects && mv own objects`},
		"objects of a pack":                 {`ln -s "$other/objects/pack" p && mv objects/pack own && mv p objects/pack`, `cd .git && rm objects/pack && mv own objects/pack`},
		"git directory":                     {`cd .. && mv .git own && ln -s "$other" .git`, `rm .git && mv own .git`},
		"git directory, which changes also": {`cd .. && mv .git own && touch own/index.lock && ln -s "$other" .git`, `rm .git && mv own .git && rm .git/index.lock`},
		"list of objects":                   {`echo "$other/objects" >> objects/info/alternates`, `: > .git/objects/info/alternates`},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "objects" {
				testload.TakesLong(t)
			}
			t.Parallel()
			rg, other := newRig(t), newRig(t)
			other.put("plans.txt", "a secret\n")
			other.run("add", ".")
			other.run("commit", "--quiet", "--message", "secret")
			other.run("repack", "-a", "-d", "--quiet")
			rg.put(".git/refs/heads/main", other.run("rev-parse", "HEAD")+"\n")
			rg.put(".git/objects/info/alternates", "")
			git := filepath.Join(other.folder.Dir, ".git")
			runs := rg.around(strings.ReplaceAll(c.before, "$other", git), c.after)
			if !rg.shows("a secret") {
				t.Fatal("the attack does not work on an open folder")
			}
			rg.folder.Closed = true
			before := runs()
			if rg.shows("a secret") {
				t.Error("a diff shows a file of another repository")
			}
			if st, err := rg.git.Status(t.Context(), rg.folder); err == nil {
				t.Errorf("got the status %+v", st)
			}
			if n := runs() - before; n < 4 {
				t.Errorf("git read %d times", n)
			}
		})
	}
}

// Other programs take a lock, save a file, or leave a file of a fetch while git
// reads.
func TestStatusOfBusyRepository(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"lock":          `: > index.lock; rm index.lock; : > FETCH_HEAD`,
		"saved file":    `: > ../new; mv ../new ../a.txt`,
		"stages a file": `{ [ $n -gt 1 ] || { cp index new; mv new index; }; }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.put("a.txt", "changed\n")
			rg.folder.Closed = true
			runs := rg.around(change, ":")
			if st := rg.status(); st.State != StateReady || len(st.Files) != 1 {
				t.Errorf("got %+v", st)
			}
			if n := runs(); n > 3 {
				t.Errorf("git read %d times", n)
			}
		})
	}
}

// A check counts as a git that runs, and is bounded.
func TestStatusChecksLargeRepositoryWithinLimits(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Closed = true
	dir := filepath.Join(rg.folder.Dir, ".git", "objects", "deep")
	for range maxDepth {
		dir = filepath.Join(dir, "x")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if st := rg.status(); st.State != StateRefused || !strings.Contains(st.Problem, "git gc") {
		t.Errorf("got %s: %s", st.State, st.Problem)
	}
	synctest.Test(t, func(t *testing.T) {
		g := New(rg.env())
		for range maxRuns {
			g.runs <- struct{}{}
		}
		done := make(chan Status, 1)
		go func() {
			st, err := g.Status(t.Context(), rg.folder)
			if err != nil {
				t.Error(err)
			}
			done <- st
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("the check ran while the largest number of gits ran")
		}
		<-g.runs
		if st := <-done; st.State != StateRefused {
			t.Errorf("got %s: %s", st.State, st.Problem)
		}
	})
}

func TestStatusSettlesBeforeRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := state{newest: now}
	if err := s.settle(t.Context()); err != nil || time.Since(now) < timeGrain {
		t.Errorf("got %v after %s", err, time.Since(now))
	}
}

// The list of further objects that git reads is a copy, which an agent cannot
// change.
func TestStatusReadsCopyOfAlternates(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put("a.txt", "changed\n")
	rg.put(".git/info/exclude", "/copied\n")
	rg.put("copied/x", "")
	rg.run("branch", "info/alternates")
	rg.put(".git/objects/info/alternates", "# none\n"+rg.folder.Dir+"/copied\n")
	rg.around(`[ -L "$GIT_DIR/objects" ] || cp "$GIT_DIR/objects/info/alternates" ../copied/list`, ":")
	rg.folder.Closed = true
	equal(t, "files", rg.files(), "a.txt unstaged:update")
	equal(t, "list", rg.read("copied/list"), filepath.Join(rg.folder.Dir, "copied")+"\n")
}

func TestInspectionReadsBoundedNumberOfEntries(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Closed = true
	r, problem := findRepository(rg.folder)
	if problem != "" {
		t.Fatal(problem)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, in := range []*inspection{{ctx: t.Context(), left: 3}, {ctx: ended, left: maxParts}} {
		in.r, in.sum, in.state.absent = r, sha256.New(), make(map[string]bool)
		if problem := in.all(); !strings.Contains(problem, "too many objects") || in.left < -1024 {
			t.Errorf("got %q with %d left", problem, in.left)
		}
	}
}
