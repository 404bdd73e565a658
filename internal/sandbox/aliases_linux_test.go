package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mountRole makes this test program mount the first path at the second one, and
// print for each further path whether a sandbox may have it as its project.
const mountRole = "mount-and-check"

func mountAndCheck(args []string) {
	for _, m := range []struct {
		source, target string
		flags          uintptr
	}{{"none", "/", unix.MS_REC | unix.MS_PRIVATE}, {args[0], args[1], unix.MS_BIND}} {
		if err := unix.Mount(m.source, m.target, "", m.flags, ""); err != nil {
			fmt.Println("mount:", err)
			return
		}
	}
	for _, dir := range args[2:] {
		b := Box{Dir: dir, Program: "/bin/sh", Env: os.Environ(), Socket: "/"}
		_, _, _, err := b.Command()
		_, refused := errors.AsType[*ExposedError](err)
		_, rule := errors.AsType[*Error](Allowance{Path: dir}.Refuse(nil))
		fmt.Println(refused, rule)
	}
}

// A system can show one directory at several places, such as home directories
// that are on another disk and mounted at /home, or the whole root directory
// again for another system (WSL, ostree).
func TestSandboxRefusesOtherNamesOfProtectedDirectories(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(filepath.Dir(w.home), "disk")
	for _, dir := range []string{filepath.Join(disk, "at"), filepath.Join(w.home, ".cache", "runnel", "git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(disk, "at")
	for _, c := range []struct {
		source, at string
		want       map[string]bool // by path: it is refused
	}{
		{filepath.Join(w.home, "code"), "/run", map[string]bool{w.project: false}}, // as in a container that shows the directories of the machine there
		{w.home, at, map[string]bool{at: true, disk: true, filepath.Join(at, ".ssh"): true, filepath.Join(at, ".cache", "runnel"): true, filepath.Join(at, "code", "project"): false}},
		{filepath.Join(w.home, ".ssh"), at, map[string]bool{at: true, disk: true, w.project: false}},
		{filepath.Join(w.home, "code"), at, map[string]bool{at: false, filepath.Join(at, "project"): false, disk: false}},
	} {
		args := []string{mountRole, c.source, c.at}
		dirs := slices.Sorted(func(yield func(string) bool) {
			for dir := range c.want {
				if !yield(dir) {
					return
				}
			}
		})
		cmd := exec.Command(self, append(args, dirs...)...)
		cmd.Env = append(os.Environ(), "HOME="+w.home)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || len(lines) != len(dirs) {
			t.Fatalf("%v: %s", err, out)
		}
		for i, dir := range dirs {
			project, rule, _ := strings.Cut(lines[i], " ")
			if want := fmt.Sprint(c.want[dir]); project != want || rule != want {
				t.Errorf("with %s at %s, %s is refused as a project: %s, and by a rule: %s; want %s", c.source, c.at, dir, project, rule, want)
			}
		}
	}
}
