//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// configure makes the world's servers start with a configuration file.
func (w *world) configure(config string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.own(path)
	w.flags = append(w.flags, "--config", path)
}

// delegated returns a world in a delegated cgroup. It skips the test if cgroups
// cannot be made.
func delegated(t *testing.T, user *syscall.Credential) *world {
	t.Helper()
	if !proc.CanFence() || os.Getuid() != 0 {
		t.Skip("no cgroup to delegate")
	}
	w := newWorld(t, user, "60s")
	w.delegate()
	t.Cleanup(w.end) // runs before the cgroup is removed
	return w
}

// wantControllers skips the test if the world's cgroup has no controllers for
// limits.
func (w *world) wantControllers() {
	w.t.Helper()
	has, err := os.ReadFile(filepath.Join(w.group.Name(), "cgroup.controllers"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"memory", "pids", "cpu"} {
		if !slices.Contains(strings.Fields(string(has)), name) {
			w.t.Skipf("a new cgroup has no controller %[1]s: the kernel must offer it in version 2 and the root must enable it (echo +%[1]s > cgroup.subtree_control)", name)
		}
	}
}

// refuses starts a server that must not start, and returns what it prints.
func (w *world) refuses() string {
	w.t.Helper()
	cmd := w.command(append([]string{"serve", "--listen", w.Addr, "--data", w.data}, w.flags...)...)
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(w.group.Fd())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err == nil {
		w.t.Error("the server ended without an error")
	}
	return out.String()
}

// TestMemoryLimitEndsTheTurn lets an agent use more memory than it may. Its turn
// ends once, with an error that names the limit, and the session continues. A
// server that takes over the agent names the limit, too.
func TestMemoryLimitEndsTheTurn(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := delegated(t, user)
		w.wantControllers()
		w.configure("limits: {memoryMiB: 2000, processes: 200, cpus: 0.5}\nagents:\n  claude-code:\n    limits: {memoryMiB: 150}\n")
		w.start()
		c := w.Follow(w.create())
		defer c.Leave()
		if end := c.End(c.Send(plan{Memory: 10}.prompt())); !isCompleted(end) {
			t.Fatalf("within the limit: %+v", end.Body)
		}
		for file, want := range map[string]string{"memory.max": "157286400", "memory.swap.max": "0", "pids.max": "200", "cpu.max": "50000 100000"} {
			if got := w.fenceFile(file); got != want && (got != "" || file != "memory.swap.max") {
				t.Errorf("%s is %q, want %q", file, got, want)
			}
		}
		checkExceeded(t, c, c.Send(plan{Memory: 600}.prompt()))
		if end := c.End(c.Send(plan{}.prompt())); !isCompleted(end) {
			t.Errorf("after the limit: %+v", end.Body)
		}

		turn := c.Send(plan{Ask: true, Later: 600}.prompt())
		asked := c.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		w.kill()
		leaf, err := os.Open(filepath.Join(w.group.Name(), "runnel-server")) // the cgroup around it may contain no process now
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { leaf.Close() })
		w.group = leaf
		w.start()
		c.Decide(asked.Body.(event.ApprovalRequested).Approval)
		checkExceeded(t, c, turn)
		w.stop()
	})
}

// fenceFile returns the content of a file of the only fence.
func (w *world) fenceFile(name string) string {
	w.t.Helper()
	fences, _ := filepath.Glob(filepath.Join(w.group.Name(), "runnel-*", name))
	fences = slices.DeleteFunc(fences, func(path string) bool { return strings.Contains(path, "/runnel-server/") })
	if len(fences) == 0 {
		return ""
	}
	b, err := os.ReadFile(fences[0])
	if err != nil || len(fences) > 1 {
		w.t.Errorf("%v, %v", fences, err)
	}
	return strings.TrimSpace(string(b))
}

// checkExceeded waits for the end of a turn, which must be the only one and
// name the memory limit.
func checkExceeded(t *testing.T, c *testapi.Client, turn string) {
	t.Helper()
	end := c.End(turn)
	b, ok := end.Body.(event.ResponseError)
	if !ok || b.Error.Code != string(runnel.ProcessCrash) || !strings.Contains(b.Error.Message, "memory limit of 150 MiB (limits.memoryMiB)") ||
		!strings.Contains(string(b.Error.Details), `"limit":"limits.memoryMiB"`) {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	ends := 0
	for _, ev := range c.Events {
		if ev.Turn == turn && event.Ends(ev.Body) {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("the turn ended %d times", ends)
	}
}

func isCompleted(ev event.Event) bool {
	b, ok := ev.Body.(event.ResponseDone)
	return ok && b.Status == event.StatusCompleted
}

// TestServerRefusesLimitsThatItCannotEnforce starts servers whose configuration
// has limits, in a cgroup without controllers, and in one with another process.
func TestServerRefusesLimitsThatItCannotEnforce(t *testing.T) {
	w := delegated(t, stranger)
	w.configure("limits: {memoryMiB: 2000, cpus: 2}\n")
	outer := w.group
	inner := filepath.Join(outer.Name(), "inner") // has no controllers, because none are enabled in the cgroup around it
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(inner) })
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		w.own(filepath.Join(inner, name))
	}
	group, err := os.Open(inner)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	w.group = group
	if said := w.refuses(); !strings.Contains(said, "no controller memory and no controller cpu") || !strings.Contains(said, "Delegate=yes") {
		t.Errorf("without controllers: %s", said)
	}
	w.group = outer
	w.wantControllers()
	other := exec.Command("sleep", "300")
	other.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(outer.Fd()), Credential: stranger}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	said := w.refuses()
	_ = other.Process.Kill()
	_ = other.Wait()
	if !strings.Contains(said, fmt.Sprintf("process %d also runs in the cgroup", other.Process.Pid)) {
		t.Errorf("with another process: %s", said)
	}
}
