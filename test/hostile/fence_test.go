//go:build linux

package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/proc"
)

// delegate creates a cgroup that belongs to the world's user. The world's
// servers then start in the cgroup, as under a service manager.
func (w *world) delegate() {
	w.t.Helper()
	root := ""
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if where, _, ok := strings.Cut(line, " - cgroup2 "); ok {
			root = strings.Fields(where)[4]
		}
	}
	dir, err := os.MkdirTemp(root, "delegated")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = os.Remove(filepath.Join(dir, "runnel-server")) // exists if the server enforced limits
		if err := os.Remove(dir); err != nil {             // fails if a process is left in the cgroup
			w.t.Error(err)
		}
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		w.own(filepath.Join(dir, name))
	}
	if w.group, err = os.Open(dir); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.group.Close() })
}

// TestCgroupEndsWhatSurvivesServerAndSupervisor kills the server and its
// supervisors at the same time, while the zoo runs. Some of the processes that
// are left can be recognised only by their cgroup. The next server must kill
// all of them.
func TestCgroupEndsWhatSurvivesServerAndSupervisor(t *testing.T) {
	if !proc.CanFence() || os.Getuid() != 0 {
		t.Skip("no cgroup to delegate")
	}
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		w.delegate()
		t.Cleanup(w.end) // runs before the cgroup is removed
		w.start()
		c, turn := w.openZoo(plan{Stubborn: true})
		defer c.Leave()
		n := len(w.processes())
		both := append(w.supervisors(), w.cmd.Process.Pid)
		for _, suspendOrKill := range []func(pid int) error{freeze, kill} { // while suspended, none can react to the end of another
			for _, pid := range both {
				if err := suspendOrKill(pid); err != nil {
					t.Error(err)
				}
			}
		}
		w.kill()
		left := len(w.processes())
		w.start()
		t.Logf("of %d processes %d were left, and gone %v after the start", n, left, w.empty(2*time.Second))
		if left == 0 {
			t.Error("nothing was left that a cgroup is needed for")
		}
		w.failed(c, turn)
		w.stop()
	})
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
