//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// change is the role of a helper that starts as root, like a process in a user
// namespace that newuidmap has set up. It connects as one user, becomes
// another, sends a request, and prints the first line of the response.
func change(args []string) {
	addr, token := args[0], args[1]
	be := func(real, effective, saved int) {
		if err := syscall.Setresuid(real, effective, saved); err != nil {
			panic(err)
		}
	}
	be(int(nobody.Uid), int(nobody.Uid), 0)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	be(0, 0, 0)
	be(int(nobody.Uid)-1, int(nobody.Uid)-1, int(nobody.Uid)-1)
	fmt.Fprintf(c, "GET /api/me HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", addr, token)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		panic(err)
	}
	fmt.Print(line)
}

// changed is the role of an agent's tool. It runs the helper and reports what
// the helper printed.
func changed(args []string) {
	dir, helper := args[0], args[1]
	var o struct{ Addr, Token string }
	awaitOrders(filepath.Join(dir, "change"), &o)
	out, err := exec.Command(helper, "play-change", o.Addr, o.Token).Output()
	writeResult(filepath.Join(dir, "changed"), words(out, err))
}

// delegate gives all processes that this goroutine starts from now on an
// /etc/subuid by which the user to may use the user id uid.
func delegate(t *testing.T, to, uid uint32) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	dir := t.TempDir()
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	list := fmt.Appendf(nil, "%d:%d:1\n", to, uid)
	if err := os.WriteFile(filepath.Join(dir, "upper", "subuid"), list, 0o644); err != nil {
		t.Fatal(err)
	}
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+dir+"/upper,workdir="+dir+"/work")
	}
	if err != nil {
		t.Skipf("the system's list of users cannot be covered: %v", err)
	}
}

// TestSubordinateUserCannotUseAToken has an agent's tool connect as a user that
// newuidmap grants its own user, and then become yet another user, which hides
// the connection. Another process runs as the first of these users, as in a
// container. The server must reject the request.
func TestSubordinateUserCannotUseAToken(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to be several users")
	}
	delegate(t, stranger.Uid, nobody.Uid)
	w := newWorld(t, stranger, "60s")
	w.start()
	helper := filepath.Join(filepath.Dir(program), "change")
	copyFile(t, w.agent(), helper)
	if err := os.Chmod(helper, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	container := exec.Command("cat")
	container.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
	in, err := container.StdinPipe()
	if err == nil {
		err = container.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = container.Wait() }()
	c := w.Watch(w.create())
	defer c.Leave()
	c.Send(plan{Deltas: 1, Ask: true, Tool: []string{w.agent(), "play-changed", w.project, helper}}.prompt())
	w.give("change", object{"Addr": w.Addr, "Token": w.Token})
	var got string
	if w.file("changed", &got); !strings.Contains(got, " 403 ") {
		t.Errorf("an agent's process of another user got %q", got)
	}
	w.killSessions()
}
