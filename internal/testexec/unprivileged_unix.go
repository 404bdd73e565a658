//go:build unix

package testexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const nobody = 65534 // uid and gid

// Unprivileged runs the calling test again in a process of the user nobody if
// this process is root, who can read everything. It reports whether it did so;
// the caller then returns. The test starts in its own HOME, not in the folder of
// its package.
func Unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		return false
	}
	home, err := os.MkdirTemp("", "") // no parent is closed to others, as those of t.TempDir are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("this process cannot be started again: ", err)
	}
	at := filepath.Join(home, "test")
	if err := Write(at, program); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home, at} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), at, args...)
	cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	return true
}
