package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wantFence skips a test if this process may not create cgroups.
func wantFence(t *testing.T) {
	t.Helper()
	if !CanFence() {
		t.Skip("our cgroup may hold no others")
	}
}

func TestFence(t *testing.T) {
	wantFence(t)
	c := command("deaf")
	c.Fence = true
	p := start(t, c)
	path := p.Fence()
	in, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil || len(strings.Fields(string(in))) == 0 {
		t.Fatalf("in %q are %q, %v", path, in, err)
	}
	if err := os.Mkdir(filepath.Join(path, "inside"), 0o755); err != nil { // as the child may
		t.Fatal(err)
	}
	if err := p.Stop(t.Context(), Now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the fence is left: %v", err)
	}
}

// The fence ends a process that cannot be found in any other way: it is not in
// the tree of a child, has its own session, and has an empty environment.
func TestFenceOfNobody(t *testing.T) {
	wantFence(t)
	f, _ := newFence(Command{Fence: true})
	defer f.close()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
	f.enclose(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if !f.populated() {
		t.Error("nobody is inside")
	}
	if !endFence(f.path) || f.populated() {
		t.Error("somebody is left")
	}
	if _, err := os.Stat(f.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the fence is left: %v", err)
	}
}

// openFence accepts only the path of a fence.
func TestForeignFence(t *testing.T) {
	id := strings.Repeat("A", markLength)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, fencePrefix+id), 0o700); err != nil {
		t.Fatal(err)
	}
	paths := []string{"", "/", "relative/" + fencePrefix + id, filepath.Join(dir, fencePrefix+id), "/sys/fs/cgroup", "/no/such/" + fencePrefix + id}
	if own, err := ownGroup(); err == nil {
		link := filepath.Join(t.TempDir(), fencePrefix+id)
		if err := os.Symlink(own, link); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, own, link)
	}
	for _, path := range paths {
		if f, err := openFence(path); err == nil {
			t.Errorf("%s is taken for a fence", path)
			f.close()
		}
	}
}

func TestGroupDir(t *testing.T) {
	const unified = "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ own, mounts, want string }{
		{"/user.slice/a", unified, "/sys/fs/cgroup/user.slice/a"},
		{"/", "30 1 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"/docker/1/x", "31 23 0:27 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "/sys/fs/cgroup/x"},
		{"/../outside", unified, ""}, {"/a", "", ""}, {"/a", "31 23 0:27 /b /sys/fs/cgroup rw - cgroup2 cgroup rw\n", ""},
		{"/a", "31 23 0:27 / /odd\\040name rw - cgroup2 cgroup rw\n", ""},
	} {
		if got, _ := groupDir(c.own, c.mounts); got != c.want {
			t.Errorf("%s in %q: %q, want %q", c.own, c.mounts, got, c.want)
		}
	}
}

// removeStale removes an old fence whose owner was killed, but only if no
// process is in the fence.
func TestStaleFences(t *testing.T) {
	wantFence(t)
	used, _ := newFence(Command{Fence: true})
	empty, _ := newFence(Command{Fence: true})
	defer used.close()
	defer empty.close()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	used.enclose(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { used.kill(); _ = cmd.Wait() }()
	exists := func(f *fence) bool { _, err := os.Stat(f.path); return err == nil }
	removeStale(filepath.Dir(empty.path))
	if !exists(empty) {
		t.Fatal("a new one was taken away")
	}
	old := time.Now().Add(-2 * staleAfter)
	for _, f := range []*fence{used, empty} {
		if err := os.Chtimes(f.path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(filepath.Dir(empty.path))
	if exists(empty) || !exists(used) {
		t.Errorf("there is the empty one %t, the used one %t", exists(empty), exists(used))
	}
}
