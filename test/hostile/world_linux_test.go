package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// TestWorldLeavesSupervisorsOfOtherProgramsAlone adds a refused session, which
// has no id, to a world. A world kills its processes when it ends. The tests of
// other packages run at the same time and use the library, whose supervisors have
// no session in their command line. They must not count as the world's.
func TestWorldLeavesSupervisorsOfOtherProgramsAlone(t *testing.T) {
	w := newWorld(t, nil, "60s") // first, since no older process is one of a world
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, procinfo.SuperviseCommand), []byte("read line"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sh", procinfo.SuperviseCommand)
	other.Dir = dir
	in, err := other.StdinPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = other.Wait() }()
	w.knows("")
	if slices.ContainsFunc(w.processes(), func(p process) bool { return p.pid == other.Process.Pid }) {
		t.Error("the supervisor of another program counts as one of the world")
	}
}
