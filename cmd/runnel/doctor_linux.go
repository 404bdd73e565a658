package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/sandbox"
)

func system() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
}

// checkKernel adds findings about the kernel features that protect the user
// from agents.
func checkKernel(ctx context.Context, d *diagnosis) {
	add := func(name string, there bool, with, without, fix string) {
		f := finding{"kernel", name, fine, with, ""}
		if !there {
			f.Status, f.Detail, f.Fix = warning, without, fix
		}
		d.add(f)
	}
	add("pidfd", procinfo.HasPidfds(),
		"agents have supervisors, and the server can distinguish you from agents",
		"missing: agents have no supervisors, and the unix socket accepts nobody without a token", "use Linux 5.4 or newer, or a container that allows pidfd_open")
	add("SO_PEERPIDFD", hasPeerPidfd(),
		"a process that reuses the number of an ended process cannot impersonate it",
		"missing: the unix socket accepts only callers that show their open files, and in rare cases an agent can imitate the server to the command line", "use Linux 6.5 or newer")
	add("cgroup", proc.CanFence(),
		"processes that an agent started end with it, even if the server and the supervisor are killed at once",
		"runnel may not create cgroups: if the server and the supervisor are killed at once, processes of an agent may be left", "start the server as a systemd user service with Delegate=yes")
	add("debugging", debugsOnlyChildren(),
		"a program may debug only processes that it started, so an agent cannot change the memory of your other programs",
		"your programs may debug each other, so an agent can act as another one, such as your shell or a starting server", "run: sysctl kernel.yama.ptrace_scope=1 (as root; to keep it after a reboot, write it into a file in /etc/sysctl.d)")
	add("Landlock", sandbox.Landlock() > 0,
		"git of the server reaches only the folder of a session with a sandbox",
		"missing: an agent in a sandbox that replaces a folder by a link at the right moment can make git of the server show or change files elsewhere", "use Linux 5.13 or newer with landlock in its parameter lsm")
	checkSandbox(ctx, d)
}

// checkSandbox adds the findings about the sandboxes of agents.
func checkSandbox(ctx context.Context, d *diagnosis) {
	f := finding{Area: "sandbox", Name: "project", Status: fine, Detail: "sandbox: project works here (" + sandbox.Version(ctx) + ")"}
	if err := sandbox.Check(ctx); err != nil {
		refusedBy(&f, err)
	}
	d.add(f)
	f = finding{Area: "sandbox", Name: "user namespaces", Status: fine, Detail: "this user may create them"}
	if !hasUserNamespaces(ctx) {
		f.Status, f.Detail, f.Fix = warning, "this user may not create them, so sandbox: project does not work", sandbox.NamespaceFix
	}
	d.add(f)
	f = finding{Area: "sandbox", Name: "files", Status: fine, Detail: fmt.Sprintf("sandbox: files works here (Landlock version %d); it limits neither the network nor unix sockets", sandbox.Landlock())}
	if err := sandbox.CheckFiles(); err != nil {
		refusedBy(&f, err)
	}
	d.add(f)
}

// refusedBy changes the finding about a kind of sandbox that cannot be made.
func refusedBy(f *finding, err error) {
	f.Status, f.Detail = warning, err.Error()
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		f.Detail, f.Fix = e.Why, e.Fix
	}
	f.Detail += "; runnel refuses to start an agent with sandbox: " + f.Name
}

// debugsOnlyChildren reports whether Yama restricts ptrace, so that a process
// may debug at most its descendants.
func debugsOnlyChildren() bool {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err == nil && strings.TrimSpace(string(scope)) != "0"
}

func hasPeerPidfd() bool {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	fd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// namespaceProbe is the program name that makes this program exit at once, if
// it has no arguments. Tests start the test binary under this name.
const namespaceProbe = "runnel-namespace-probe"

// The name alone does not make the process exit: any program can start runnel
// under this name, and a command of runnel must not succeed without doing
// anything.
func init() {
	if len(os.Args) == 1 && os.Args[0] == namespaceProbe {
		os.Exit(0) //nolint:forbidigo // this process is only a probe
	}
}

// namespaceTime is the timeout of the probe.
const namespaceTime = 5 * time.Second

// hasUserNamespaces reports whether this user can start a program in a new user
// namespace. It starts the probe.
func hasUserNamespaces(ctx context.Context) bool {
	ctx, end := context.WithTimeout(ctx, namespaceTime)
	defer end()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{namespaceProbe}, []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	return cmd.Run() == nil
}
