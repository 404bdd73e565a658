package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main runs a bridge and does not return, in a process that was started as one.
// Otherwise it returns at once.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != Command {
		return
	}
	code, err := run(os.Args[2:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "runnel: the bridge of the sandbox: %v\n", err)
		code = failed
	}
	os.Exit(code) //nolint:forbidigo // this process is only a bridge
}

// failed is the exit code of a bridge that did not start its program, as of a
// shell that cannot execute a command.
const failed = 126

// run starts the program and returns its exit code, as a shell reports it.
func run(args []string) (int, error) {
	o, ok := parse(args)
	if !ok {
		return 0, errors.New("wrong arguments")
	}
	for _, p := range o.pins {
		if err := p.check(); err != nil {
			return 0, err
		}
	}
	debug.SetGCPercent(10)                           // the heap is nearly empty
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // so that no program in the sandbox reads the secret
	d := dialer{socket: o.socket, secret: os.Getenv(SecretVariable)}
	if err := d.listen(Port, 0); err != nil {
		return 0, err
	}
	for _, p := range o.ports {
		if err := d.listen(p, p); err != nil {
			return 0, err
		}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	leaveKeyring()
	if err := limitCalls(); err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(o.program[0], o.program, &syscall.ProcAttr{
		Env: slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, SecretVariable+"=") }), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", o.program[0], err)
	}
	leave(pid, unix.RLIMIT_NOFILE)
	leave(pid, unix.RLIMIT_NPROC)
	for fd := range 3 { // the agent alone holds its channels, so their end is its end
		_ = unix.Close(fd)
	}
	go func() {
		for s := range signals {
			_ = unix.Kill(pid, s.(unix.Signal))
		}
	}()
	return await(pid), nil
}

// leave lowers a limit of the agent below that of this process.
//
// The kernel lets a program send descriptors only while all programs of its user
// have fewer under way than its own limit. Otherwise an agent could keep the
// bridges of all sandboxes from the proxy, and the server from starting agents.
// With as many processes as its user may have, an agent could end the server,
// which then cannot start a thread.
func leave(pid, limit int) {
	var ours, agents unix.Rlimit
	if unix.Getrlimit(limit, &ours) != nil || unix.Prlimit(pid, limit, nil, &agents) != nil {
		return // the agent has already ended
	}
	agents.Max = min(agents.Max, ours.Max-ours.Max/4)
	agents.Cur = min(agents.Cur, agents.Max)
	_ = unix.Prlimit(pid, limit, &agents, nil)
}

// check returns an error if the path in the sandbox is another file or directory
// than the one that the server has checked.
func (p Pin) check() error {
	var st unix.Stat_t
	if err := unix.Lstat(p.Path, &st); err != nil {
		return fmt.Errorf("%s was replaced while the sandbox was being made: %w", p.Path, err)
	}
	if uint64(st.Dev) != p.Dev || st.Ino != p.Ino { //nolint:unconvert // another type on some architectures
		return fmt.Errorf("%s was replaced while the sandbox was being made; start the session again", p.Path)
	}
	return nil
}

// leaveKeyring gives the calling thread, and the program that it starts, an
// empty session keyring, because a sandbox does not separate that of its user.
// It keeps the goroutine on the thread.
func leaveKeyring() {
	runtime.LockOSThread()
	_, _ = unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // fails only if the kernel has no keyrings for this process
}

// await reaps processes until the process pid has ended, and returns its exit
// code.
func await(pid int) int {
	for {
		var st unix.WaitStatus
		ended, err := unix.Wait4(-1, &st, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return failed // unreachable: pid is a child that has not been reaped
		case ended == pid && st.Exited():
			return st.ExitStatus()
		case ended == pid && st.Signaled():
			return 128 + int(st.Signal())
		}
	}
}

// A dialer connects programs in the sandbox to the proxy.
type dialer struct{ socket, secret string }

// listen accepts connections on a loopback port. With a target, each connection
// leads to that loopback port of the machine. Otherwise the program itself sends
// a request to the proxy.
func (d dialer) listen(port, target int) error {
	any := false
	for _, host := range []string{"127.0.0.1", "::1"} {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			if any { // a system without IPv6
				continue
			}
			return err
		}
		any = true
		go d.accept(ln, target)
	}
	return nil
}

func (d dialer) accept(ln net.Listener, target int) {
	for {
		c, err := ln.Accept()
		if err != nil {
			time.Sleep(pause) // such as no descriptors left
			continue
		}
		go d.serve(c.(*net.TCPConn), target)
	}
}

func (d dialer) serve(c *net.TCPConn, target int) {
	defer c.Close()
	proxy, err := d.dial()
	if err != nil {
		return
	}
	defer proxy.Close()
	_ = Hand(proxy, d.secret, target, c) // if it fails, the program's connection ends
}

const (
	// outage is how long a connection waits for a proxy that does not listen,
	// because the server is being restarted.
	outage = 20 * time.Second
	pause  = 50 * time.Millisecond
)

func (d dialer) dial() (*net.UnixConn, error) {
	for end := time.Now().Add(outage); ; time.Sleep(pause) {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.socket, Net: "unix"})
		if err == nil || time.Now().After(end) {
			return c, err
		}
	}
}
