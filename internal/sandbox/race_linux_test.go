package sandbox

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// exchange swaps two paths again and again, as an agent in another sandbox of
// the same project can, until the test ends.
func exchange(t *testing.T, a, b string) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
}

func TestDirectoryThatIsReplacedByALinkIsNotInTheSandbox(t *testing.T) {
	tries := 8
	switch {
	case os.Getenv("RUNNEL_LONG") != "":
		tries = 200
	case testing.Short():
		tries = 2
	}
	for name, c := range map[string]struct{ path, to, secret string }{
		"directory of the session":                           {"package", ".ssh", "id"},
		"directory of the session, by a link to another one": {"package", "code/other", "file"},
		"repository": {".git", ".ssh", "id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			raced, link := filepath.Join(w.project, c.path), filepath.Join(w.project, "link")
			if err := os.MkdirAll(filepath.Join(raced, "hooks"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(raced, "HEAD"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(w.home, filepath.FromSlash(c.to)), link); err != nil {
				t.Fatal(err)
			}
			b := w.box("cat " + filepath.Join(raced, c.secret))
			if b.InPlace = true; c.path == "package" {
				b.Dir = raced
			}
			exchange(t, raced, link)
			for range tries {
				command, args, env, err := b.Command()
				if err != nil {
					continue // noticed at once
				}
				p, err := proc.Start(t.Context(), proc.Command{Path: command, Args: args, Env: env, Dir: "/", Boxed: true})
				if err != nil {
					t.Fatal(err)
				}
				p.CloseStdin()
				out, err := io.ReadAll(p.Stdout())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Wait(context.WithoutCancel(t.Context())); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(out), "secret") {
					t.Fatal("a directory outside of the project is in the sandbox")
				}
			}
		})
	}
}

func TestRepositoryBehindALinkInTheProjectIsRefused(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.project, "repository", "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("repository", filepath.Join(w.project, ".git")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.box("true").Command(); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("the settings of the repository are writable: %v", err)
	}
}

// keyRole makes this test program print a key of its session keyring.
const keyRole = "print-key"

func printKey() {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", keyName, 0)
	buf := make([]byte, 100)
	n := 0
	if err == nil {
		n, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	}
	if err != nil {
		_, _ = os.Stdout.WriteString("no key: " + err.Error())
		return
	}
	_, _ = os.Stdout.Write(buf[:n])
}

const keyName = "runnel-test-key"

func TestKeysOfTheSessionAreNotInTheSandbox(t *testing.T) {
	w := newWorld(t)
	runtime.LockOSThread() // never unlocked: the thread has a keyring of its own and ends with the test
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Skip("this kernel has no keyrings: ", err)
	}
	if _, err := unix.AddKey("user", keyName, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := w.box("")
	b.Program, b.Args = self, []string{keyRole}
	// A program that could make keys could use up those that the user may have.
	// The next sandbox could then not leave the user's keyring.
	if out, _ := run(t, b); out != "no key: "+unix.ENOSYS.Error() {
		t.Errorf("a program in the sandbox read %q", out)
	}
}

// socketRole makes this test program print which sockets it can make.
const socketRole = "print-sockets"

func printSockets() {
	for _, s := range []struct {
		name         string
		family, kind int
	}{
		{"unix", unix.AF_UNIX, unix.SOCK_STREAM}, {"inet", unix.AF_INET, unix.SOCK_STREAM}, {"inet6", unix.AF_INET6, unix.SOCK_DGRAM}, {"netlink", unix.AF_NETLINK, unix.SOCK_RAW},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM}, {"alg", unix.AF_ALG, unix.SOCK_SEQPACKET},
	} {
		if fd, err := unix.Socket(s.family, s.kind, 0); err == nil {
			_ = unix.Close(fd)
			_, _ = os.Stdout.WriteString(s.name + " ")
		}
	}
	if f, err := os.Open(os.Args[2]); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
	} else if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err == nil {
		_, _ = os.Stdout.WriteString("lease ")
	} else if _, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil {
		_, _ = os.Stdout.WriteString("no fcntl ")
	}
	params := make([]byte, 120)
	if fd, _, errno := unix.Syscall(425, 1, uintptr(unsafe.Pointer(&params[0])), 0); errno == 0 { // io_uring_setup
		_ = unix.Close(int(fd))
		_, _ = os.Stdout.WriteString("queue ")
	}
}

// A socket of a family that a network namespace does not separate leads out of
// the sandbox, such as to the host of a virtual machine.
func TestSandboxHasOnlySocketsThatItsNetworkSeparates(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := w.box("")
	// A lease on a file that the agent may only read blocks everybody who opens
	// it, such as the same agent in another project.
	b.Program, b.Args = self, []string{socketRole, b.Read[0]}
	if out, code := run(t, b); out != "unix inet inet6 netlink " || code != 0 {
		t.Errorf("exit code %d, sockets: %s", code, out)
	}
}
