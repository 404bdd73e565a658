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

	"golang.org/x/sys/unix"

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
	g, err := b.guard()
	if err != nil {
		return "", nil, nil, err
	}
	dirs := []string{real(b.Dir)}
	for _, dir := range b.Dirs {
		dirs = append(dirs, real(dir))
	}
	for _, dir := range dirs {
		if p := g.exposes(dir); p != "" {
			return "", nil, nil, &ExposedError{dir, p}
		}
	}
	if path, err = find(dirs); err != nil {
		return "", nil, nil, err
	}
	m, err := b.mounts(dirs, g)
	if err != nil {
		return "", nil, nil, err
	}
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

func (b Box) start() string {
	if b.Start != "" {
		return b.Start
	}
	return b.Dir
}

// mounts returns the paths in the sandbox. dirs are the directories of the
// session.
func (b Box) mounts(dirs []string, g guard) (*mounts, error) {
	m := new(mounts)
	m.system()
	m.add(empty, "", g.homes[0])
	m.also(b.variable("HOME"))
	m.programs(b, g)
	for _, dir := range b.Private {
		m.add(empty, "", real(dir))
	}
	for _, dir := range b.State {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, &Error{Why: "the agent's directory " + dir + " cannot be created: " + err.Error()}
		}
		m.pin(writable, real(dir))
	}
	for _, file := range b.Files {
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			m.pin(writable, real(file))
		}
	}
	if err := m.copies(b.Copies, b.Scratch); err != nil {
		return nil, err
	}
	for _, path := range b.Read {
		m.show(real(path))
	}
	for _, dir := range dirs {
		m.pin(writable, dir)
	}
	for _, dir := range dirs {
		if err := m.repository(dir, g); err != nil {
			return nil, err
		}
	}
	for _, dir := range append([]string{b.Dir}, b.Dirs...) {
		m.also(dir)
	}
	if b.Start != "" {
		m.show(real(b.Start))
		m.also(b.Start)
	}
	m.hideProtected(g)
	return m, nil
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
	replaced := []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST"}
	for _, e := range set {
		name, _, _ := strings.Cut(e, "=")
		replaced = append(replaced, name)
	}
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(replaced, name)
	})
	return append(out, set...)
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

// Landlock returns the version of Landlock that the kernel offers, or 0.
func Landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}
