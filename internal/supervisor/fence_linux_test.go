package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

func wantFence(t *testing.T) {
	t.Helper()
	if !proc.CanFence() {
		t.Skip("our cgroup may hold no others")
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	until(t, path+" is gone", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Server and supervisor are killed, first the server. Some of the processes
// that the agent started cannot be found by parent, session or environment. End
// finds them by the fence in the record.
func TestCgroupEndsWhatSurvivesServerAndSupervisor(t *testing.T) {
	wantFence(t)
	dir := t.TempDir()
	cmd, out := serverRole(t, dir, "1m", "zoo")
	pids := readyPids(t, out, 4)
	k := Takeover{Dir: dir, Name: "one"}
	r, err := k.read()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(filepath.Join(r.Fence, "cgroup.procs"))
	if err != nil || len(strings.Fields(string(in))) < len(pids) {
		t.Fatalf("in the fence %q are %q, %v", r.Fence, in, err)
	}
	_ = cmd.Process.Kill() // first, because a running server ends what a killed supervisor leaves
	_ = cmd.Wait()
	_ = unix.Kill(r.Supervisor.Pid, unix.SIGKILL)
	left := 0
	for _, pid := range pids {
		if alive(pid) {
			left++
		}
	}
	if left == 0 {
		t.Error("nothing was left that a fence is needed for")
	}
	if err := End(k); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	gone(t, r.Fence)
}

// A fence is removed after its agent has ended, for every way in which an agent
// can end.
func TestFenceGoesWithTheAgent(t *testing.T) {
	wantFence(t)
	for what, end := range map[string]func(a Agent) error{
		"stopped":           func(a Agent) error { return a.Stop(t.Context(), proc.Now) },
		"supervisor killed": func(a Agent) error { return unix.Kill(supervisorOf(a), unix.SIGKILL) },
		"left":              func(a Agent) error { a.Detach(); return nil },
	} {
		a := start(t, roleCommand("deaf"), Takeover{Dir: t.TempDir(), Name: "one", Window: 50 * time.Millisecond})
		readyPids(t, a.Stdout(), 1)
		path := a.(*child).fence
		if _, err := os.Stat(path); path == "" || err != nil {
			t.Fatalf("%s: fence %q, %v", what, path, err)
		}
		if err := end(a); err != nil {
			t.Error(err)
		}
		gone(t, path)
	}
}
