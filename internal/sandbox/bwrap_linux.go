package sandbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/proc"
)

// isolation are the options of bubblewrap that every sandbox has: namespaces of
// its own, no privileges in them and no way to get further ones, a terminal
// session of its own, and an end together with its parent.
var isolation = []string{
	"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
	"--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session",
}

// The places in a sandbox of what Runnel itself needs.
const (
	ourDir      = "/run/runnel"
	ourProgram  = ourDir + "/bridge"
	ourSockets  = ourDir + "/egress"
	programFlag = "0555"
)

// Command returns the program and the arguments that run the agent of b in its
// sandbox, and the agent's environment there. It creates missing directories of
// the agent's state, and missing settings of repositories. It fails with an
// *Error or an *ExposedError if the sandbox cannot be made.
func (b Box) Command() (path string, args, env []string, err error) {
	g, dirs, err := b.check()
	if err != nil {
		return "", nil, nil, err
	}
	if path, err = find(dirs); err != nil {
		return "", nil, nil, err
	}
	m, err := b.mounts(dirs, g, protectGit)
	if err != nil {
		return "", nil, nil, err
	}
	m.hideSockets()
	pins, err := m.pins()
	if err != nil {
		return "", nil, nil, err
	}
	args = append(slices.Clone(isolation), m.args()...)
	args = append(args,
		"--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev",
		"--perms", programFlag, "--ro-bind-data", strconv.Itoa(ImageFD), ourProgram, "--ro-bind", b.Socket, ourSockets,
		"--remount-ro", "/", "--chdir", b.start(), "--as-pid-1", "--", ourProgram)
	args = append(args, bridge.Args(filepath.Join(ourSockets, SocketName), b.Ports, pins, b.Program, b.Args)...)
	return path, args, environ(b.Env), nil
}

// environ returns the environment of programs in a sandbox: they reach the
// network through the bridge, and have directories for temporary files of their
// own.
func environ(env []string) []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(bridge.Port)
	set := []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "NO_PROXY=localhost,127.0.0.1,::1",
		"http_proxy=" + proxy, "https_proxy=" + proxy, "all_proxy=" + proxy, "no_proxy=localhost,127.0.0.1,::1",
		"NODE_USE_ENV_PROXY=1", "TMPDIR=/tmp",
	}
	return override(without(env, outside), set)
}

// find returns the path of bubblewrap, which must not be in one of the session's
// directories.
func find(dirs []string) (string, error) {
	path := proc.FilterPath([]string{"PATH=" + os.Getenv("PATH")}, proc.Outside(dirs))
	found, err := proc.LookPath("bwrap", strings.TrimPrefix(path[0], "PATH="))
	if err != nil {
		return "", &Error{Why: "sandbox: project needs bubblewrap (bwrap), which is not installed", Fix: "Run: " + install()}
	}
	return found, nil
}

// install returns the command that installs bubblewrap on this system.
func install() string {
	release, _ := os.ReadFile("/etc/os-release")
	for _, of := range []struct{ id, command string }{
		{"debian", "sudo apt-get install bubblewrap"}, {"ubuntu", "sudo apt-get install bubblewrap"}, {"fedora", "sudo dnf install bubblewrap"},
		{"rhel", "sudo dnf install bubblewrap"}, {"suse", "sudo zypper install bubblewrap"}, {"arch", "sudo pacman -S bubblewrap"}, {"alpine", "sudo apk add bubblewrap"},
	} {
		if bytes.Contains(release, []byte(of.id)) {
			return of.command
		}
	}
	return "sudo apt-get install bubblewrap (Debian), or install it with the package manager of your system"
}

// trialTime bounds the trial of Check.
const trialTime = 10 * time.Second

var working sync.Map // the paths of programs for which Check has succeeded in this process

// Check fails with an *Error if no sandbox can be made on this machine. It
// starts bubblewrap once with everything that a sandbox needs. Later calls
// after a success do nothing. The program is not one in the directories dirs,
// those of a session.
func Check(ctx context.Context, dirs ...string) error {
	outside := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		outside = append(outside, real(dir))
	}
	path, err := find(outside)
	if err != nil {
		return err
	}
	if _, ok := working.Load(path); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	args := append(slices.Clone(isolation), "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", ":")
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if text, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return &Error{Why: "sandbox: project needs bubblewrap, which did not answer in time"}
		}
		return explain(strings.TrimSpace(string(text)), err)
	}
	working.Store(path, true)
	return nil
}

// explain returns the error for a failed trial. text is what bubblewrap printed.
func explain(text string, err error) error {
	line, _, _ := strings.Cut(text, "\n")
	if line == "" {
		line = err.Error()
	}
	e := &Error{Why: "sandbox: project needs bubblewrap, which fails on this machine: " + line}
	switch {
	case strings.Contains(text, "Unknown option"):
		e.Fix = "Install version 0.8 or newer."
	case strings.Contains(text, "namespace"), strings.Contains(text, "uid map"), strings.Contains(text, "Operation not permitted"):
		e.Fix = "Allow user namespaces: " + NamespaceFix + "."
	}
	return e
}

// NamespaceFix names the settings of the system that allow user namespaces.
const NamespaceFix = "sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0"

// Version returns what bubblewrap says about its version.
func Version(ctx context.Context) string {
	path, err := find(nil)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	out, _ := exec.CommandContext(ctx, path, "--version").Output()
	return strings.TrimSpace(string(out))
}
