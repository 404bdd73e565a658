package guardrails

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// targets are what the attacker tries to reach. The test writes them to a file
// in the project.
type targets struct {
	Read    []string `json:"read"`  // files outside of the sandbox
	Write   []string `json:"write"` // files that it must not be able to change or create
	TCP     []string `json:"tcp"`   // listeners of the machine, by address
	UDP     string   `json:"udp"`
	Unix    []string `json:"unix"`    // sockets of the machine; a name that begins with @ is an abstract one
	Pid     int      `json:"pid"`     // of the server
	Blocked []string `json:"blocked"` // hosts with ports that are not in the egress list
	Allowed string   `json:"allowed"` // a loopback port that is, as an address
}

const (
	targetsFile = "targets.json"
	reportFile  = "report.json"
	attackRole  = "play-attacker"
)

// readTargets reads the targets that the test has written for the attacker.
func readTargets() (to targets, err error) {
	data, err := os.ReadFile(targetsFile)
	if err != nil {
		return to, err
	}
	return to, json.Unmarshal(data, &to)
}

// attack tries everything in targets, and writes what succeeded to a report in
// the project. An attack that must succeed, because the sandbox allows it, has a
// name that begins with "allowed".
func attack() int {
	to, err := readTargets()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	done := map[string]string{}
	try := func(name string, f func() (string, error)) {
		if got, err := f(); err == nil {
			done[name] = got
		}
	}
	for _, path := range to.Read {
		try("read "+path, func() (string, error) { b, err := os.ReadFile(path); return string(b[:min(len(b), 20)]), err })
	}
	for _, path := range to.Write {
		try("write "+path, func() (string, error) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o700)
			if err == nil {
				_, err = f.WriteString("#!/bin/sh\necho attacked\n")
			}
			return "", err
		})
		try("replace "+path, func() (string, error) { return "", os.Rename(targetsFile, path) })
		try("remove "+path, func() (string, error) { return "", os.Remove(path) })
	}
	try("move .git", func() (string, error) { return "", os.Rename(".git", "git") })
	attackNetwork(to, try)
	attackProcesses(to, try)
	out, err := json.Marshal(done)
	if err == nil {
		err = os.WriteFile(reportFile, out, 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("attack is over")
	return 0
}

const answerTimeout = 3 * time.Second // for an answer that must not come

func attackNetwork(to targets, try func(string, func() (string, error))) {
	for _, at := range to.TCP {
		try("tcp "+at, func() (string, error) { return dialled(net.DialTimeout("tcp", at, answerTimeout)) })
	}
	if c, err := net.Dial("udp", to.UDP); err == nil { // the sandbox has a loopback of its own; the test counts what arrives
		_, _ = c.Write([]byte("attacked"))
	}
	try("dns", func() (string, error) {
		names, err := net.LookupHost("example.com")
		return strings.Join(names, " "), err
	})
	try("dns over udp", func() (string, error) { // sent without an error only if there is a route
		c, err := net.Dial("udp", "8.8.8.8:53")
		if err == nil {
			_, err = c.Write([]byte("attacked"))
		}
		return "", err
	})
	for _, path := range to.Unix {
		try("unix "+path, func() (string, error) { return dialled(net.DialTimeout("unix", path, answerTimeout)) })
	}
	for _, at := range to.Blocked {
		try("proxy "+at, func() (string, error) { return connect(at) })
	}
	try("allowed by the proxy", func() (string, error) { return connect(to.Allowed) })
	try("allowed directly", func() (string, error) { return dialled(net.DialTimeout("tcp", to.Allowed, answerTimeout)) })
	if len(to.Unix) > 0 {
		try("proxy without secret", func() (string, error) {
			c, err := net.Dial("unix", "/run/runnel/egress/proxy.sock")
			if err != nil {
				return "", err
			}
			return answered(c, to.Allowed)
		})
	}
}

func dialled(c net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	_, err = fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n")
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // a forwarded port accepts before it knows the other end
	}
	return "", err
}

// connect asks the proxy of the environment for a connection.
func connect(at string) (string, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return "", err
	}
	c, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		return "", err
	}
	return answered(c, at)
}

func answered(c net.Conn, at string) (string, error) {
	return answeredWithin(c, at, 20*time.Second)
}

func answeredWithin(c net.Conn, at string, limit time.Duration) (string, error) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp.Status, nil
}

func attackProcesses(to targets, try func(string, func() (string, error))) {
	try("signal the server", func() (string, error) { return "", syscall.Kill(to.Pid, 0) })
	try("see other processes", func() (string, error) {
		pids, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return "", err
		}
		for _, pid := range pids {
			line, _ := os.ReadFile(pid + "/cmdline")
			if args := strings.Split(string(line), "\x00"); len(args) > 1 && (args[1] == "serve" || args[1] == procinfo.SuperviseCommand) || strings.HasPrefix(string(line), "bwrap") {
				return string(line), nil
			}
		}
		if len(pids) > 100 {
			return strconv.Itoa(len(pids)), nil
		}
		return "", os.ErrNotExist
	})
	try("read the bridge's secret", func() (string, error) { b, err := os.ReadFile("/proc/1/environ"); return string(b), err })
	try("read the bridge's memory", func() (string, error) {
		f, err := os.Open("/proc/1/mem")
		if err == nil {
			f.Close()
		}
		return "", err
	})
	// As root, a program needs no privileges to write these. Opening one changes
	// nothing.
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/self/oom_score_adj"} {
		try("open "+path+" for writing", func() (string, error) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				f.Close()
			}
			return "", err
		})
	}
	try("debug the bridge", func() (string, error) { return "", unix.PtraceAttach(1) })
	try("mount", func() (string, error) { return "", unix.Mount("none", "/tmp", "tmpfs", 0, "") })
	try("write again", func() (string, error) { return "", unix.Mount("", ".git/config", "", unix.MS_REMOUNT|unix.MS_BIND, "") })
	try("new user namespace", func() (string, error) { return "", unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS) })
	for _, path := range []string{"/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/sys/kernel", "/dev/mem", "/dev/kmsg"} {
		try("see "+path, func() (string, error) { _, err := os.Stat(path); return "", err })
	}
}
