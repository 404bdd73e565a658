package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// spellRole makes this test program mount the first path at the second one, and
// print whether each further path exposes something that is protected. The guard does
// not learn of the mount. So the second path is only another name of the first, as on a
// file system that ignores case.
const spellRole = "mount-and-compare"

func mountAndCompare(args []string) {
	for _, err := range []error{unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount(args[0], args[1], "", unix.MS_BIND, "")} {
		if err != nil {
			fmt.Println("mount:", err)
			return
		}
	}
	for _, dir := range args[2:] {
		b := Box{Dir: dir, Program: "/bin/sh", Env: os.Environ(), Socket: "/"}
		g, err := b.guard()
		g.table = nil
		fmt.Println(err == nil && g.exposes(dir) == "", g.otherwise(dir, b.obeyed(g)) != "")
	}
}

func TestSandboxComparesDirectoriesInOtherSpelling(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(filepath.Dir(w.home), "HOME")
	for _, dir := range []string{at, filepath.Join(w.home, ".cache", "runnel", "git"), filepath.Join(w.home, ".tool")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{"": true, ".ssh": true, ".cache/runnel": true, ".tool": true, "code": false, "code/project": false}
	for name, protected := range want {
		cmd := exec.Command(self, spellRole, w.home, at, filepath.Join(at, name))
		cmd.Env = append(os.Environ(), "HOME="+w.home)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != fmt.Sprint(true, protected) {
			t.Errorf("HOME/%s: %v %s, want %t", name, err, got, protected)
		}
	}
}

// On a file system that ignores case, a sandbox could protect .git/config but not
// .git/CONFIG. A further name stands for such a file system here.
func TestSandboxRefusesSettingsWithNamesInOtherCase(t *testing.T) {
	for _, name := range []string{".git/config", ".git/modules/sub/config"} {
		w := newWorld(t)
		path := filepath.Join(w.project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{path, filepath.Join(filepath.Dir(path), "HEAD")} {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, code := run(t, w.box("echo hello")); code != 0 {
			t.Fatalf("%s: %s", name, out)
		}
		if err := os.Link(path, filepath.Join(filepath.Dir(path), "CONFIG")); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := w.box("echo hello").Command()
		if refused, ok := errors.AsType[*Error](err); !ok || !strings.Contains(refused.Why, "ignores the case of names") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
