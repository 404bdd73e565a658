package changes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// around replaces git by a script that runs shell commands before and after
// each git that reads the status or a diff. They run in the git directory, and
// $n is the number of that run.
func (rg *rig) around(before, after string) (runs func() int) {
	rg.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		rg.t.Fatal(err)
	}
	base := filepath.Dir(rg.folder.Dir)
	bin, count := filepath.Join(base, "bin"), filepath.Join(base, "count")
	rg.write(count, "")
	rg.write(filepath.Join(bin, "git"), fmt.Sprintf(`#!/bin/sh
case " $* " in *" status "*|*" diff "*) ;; *) exec '%[1]s' "$@" ;; esac
echo >> '%[2]s'; n=$(wc -l < '%[2]s')
(cd '%[3]s/.git' && %[4]s)
'%[1]s' "$@"; code=$?
(cd '%[3]s'; %[5]s)
exit $code
`, git, count, rg.folder.Dir, before, after))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		rg.t.Fatal(err)
	}
	env := rg.env()
	env[0] = "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	rg.git = New(env)
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

// A check of many files ends with its context, and counts as a git that runs.
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
	for range maxRuns { // all other gits run
		rg.git.runs <- struct{}{}
	}
	done := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() {
		_, err := rg.git.Status(ctx, rg.folder)
		done <- err
	}()
	end()
	if err := <-done; err == nil {
		t.Error("the check ran beyond the limit")
	}
}

func TestStatusSettlesBeforeRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := state{newest: now}
	if err := s.settle(t.Context()); err != nil || time.Since(now) < timeGrain {
		t.Errorf("got %v after %s", err, time.Since(now))
	}
}
