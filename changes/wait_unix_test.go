//go:build unix

package changes

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a file of rules makes git wait until its time is over.
// Meanwhile git still works in other folders.
func TestRepositoryThatMakesGitWaitDelaysNoOther(t *testing.T) {
	t.Parallel()
	bad, good := newRig(t), newRig(t)
	rules := filepath.Join(bad.folder.Dir, ".gitignore")
	if err := syscall.Mkfifo(rules, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	waiting := make(chan error, 2*maxRuns)
	for range 2 * maxRuns {
		go func() {
			_, err := good.git.Status(ctx, bad.folder)
			waiting <- err
		}()
	}
	for len(good.git.runs) < maxOwnRuns && len(waiting) == 0 {
		runtime.Gosched()
	}
	good.status()
	if n := len(waiting); n > 0 {
		t.Errorf("%d of the others ended before", n)
	}
	end()
	for range 2 * maxRuns {
		<-waiting
	}
}

func TestStatusRefusesPipeAmongObjects(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.folder.Closed = true
	if err := syscall.Mkfifo(filepath.Join(rg.folder.Dir, ".git", "refs", "heads", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := rg.status(); st.State != StateRefused || !strings.Contains(st.Problem, "pipe is no regular file") {
		t.Errorf("got %s: %s", st.State, st.Problem)
	}
}
