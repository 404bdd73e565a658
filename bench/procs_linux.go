package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel/internal/bridge"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// A process is a process that belongs to this run.
type process struct {
	pid     int
	program string
	args    []string
}

// supervises reports whether p is a supervisor.
func (p process) supervises() bool {
	_, ok := procinfo.SupervisedSession(p.args)
	return ok
}

// processes returns the processes of this run. These are programs in its
// directory and the supervisors of its sessions, whose program may have no
// file.
func (w *workspace) processes() ([]process, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var out []process
	for _, file := range stats {
		p, ok := readProcess(filepath.Dir(file))
		if ok && (strings.HasPrefix(p.program, w.dir+"/") || p.supervises() && w.sessions[p.args[len(p.args)-1]]) {
			out = append(out, p)
		}
	}
	return out, nil
}

// readProcess reads the process of a directory in /proc. ok is false if the
// process does not exist any more or is a zombie.
func readProcess(dir string) (p process, ok bool) {
	fields, err := statFields(dir)
	if err != nil || fields[0] == "Z" {
		return p, false
	}
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(cmdline) == 0 {
		return p, false
	}
	p.args = strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	p.pid, err = strconv.Atoi(filepath.Base(dir))
	p.program = p.args[0]
	if program, err := os.Readlink(dir + "/exe"); err == nil { // only root can read it if the process hides its memory
		p.program = program
	}
	return p, err == nil
}

// statFields returns the fields of a stat file after the program name. The
// first ones are state and parent.
func statFields(dir string) ([]string, error) {
	data, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("%s/stat: only %d fields", dir, len(fields))
	}
	return fields, nil
}

// cpuTime returns the processor time that the processes have used together.
func cpuTime(pids []int) (sum time.Duration, err error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	for _, pid := range pids {
		fields, err := statFields(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			return 0, err
		}
		for _, f := range fields[11:13] { // utime, stime
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// contextSwitches returns how often the threads of the processes have given up
// the processor or lost it, together. Threads that have ended do not count.
func contextSwitches(pids []int) (sum int, err error) {
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil {
			return 0, err
		}
		for _, file := range threads {
			data, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			if err != nil {
				return 0, err
			}
			for line := range strings.Lines(string(data)) {
				if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
					n, err := strconv.Atoi(strings.TrimSpace(value))
					if err != nil {
						return 0, fmt.Errorf("%s: %w", file, err)
					}
					sum += n
				}
			}
		}
	}
	return sum, nil
}

// writing is what processes have written since they started.
type writing struct {
	writes  int // calls that write
	written int // bytes that they wrote to files, pipes and sockets
	stored  int // bytes that they made the storage write
}

// diskIO adds up what the processes have written.
func diskIO(pids []int) (sum writing, err error) {
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return sum, err
		}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			n, err := strconv.Atoi(value)
			if err != nil {
				return sum, fmt.Errorf("%s of %d: %w", name, pid, err)
			}
			switch name {
			case "syscw":
				sum.writes += n
			case "wchar":
				sum.written += n
			case "write_bytes":
				sum.stored += n
			}
		}
	}
	return sum, nil
}

// noProc returns why processes cannot be observed; "" if they can.
func noProc() string { return "" }

// cannotCount returns why writes cannot be counted; "" if they can.
func cannotCount() string {
	if _, err := os.Stat("/proc/self/io"); err != nil {
		return "the kernel does not count writes in /proc/PID/io"
	}
	if os.Geteuid() != 0 {
		return "/proc/PID/io needs root, because the server hides its memory"
	}
	return ""
}

// cannotTrace returns why system calls cannot be counted; "" if they can.
func cannotTrace() string {
	if _, err := exec.LookPath("strace"); err != nil {
		return "strace is not installed"
	}
	if os.Geteuid() != 0 {
		return "strace needs root, because the server hides its memory"
	}
	return ""
}

// traceCalls counts the system calls of the processes, and of all threads and
// processes that they start. count stops the counting and returns the number.
func traceCalls(ctx context.Context, pids []int) (count func() (int, error), err error) {
	args := []string{"-f", "-c", "-U", "calls,name"}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	cmd := exec.CommandContext(ctx, "strace", args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	for range pids { // until every process is attached
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
			return nil, errors.Join(fmt.Errorf("strace: %s", strings.TrimSpace(line)), err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	return func() (int, error) {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return 0, err
		}
		table, err := io.ReadAll(lines)
		if err != nil {
			return 0, err
		}
		_ = cmd.Wait() // ends by the signal
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) == 2 && f[1] == "total" {
				return strconv.Atoi(f[0])
			}
		}
		return 0, fmt.Errorf("strace printed no total: %s", table)
	}, nil
}

// memory returns the memory of a process in bytes: all resident memory, and the
// part of it that is not backed by a file.
func memory(pid int) (resident, own int, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for name, value := range map[string]*int{"VmRSS:": &resident, "RssAnon:": &own} {
		_, rest, _ := strings.Cut(string(data), name)
		if _, err := fmt.Sscan(rest, value); err != nil {
			return 0, 0, fmt.Errorf("%s of %d: %w", name, pid, err)
		}
		*value <<= 10
	}
	return resident, own, nil
}

// tree returns a process and all its descendants. A supervisor is a child of
// the server, and an agent is a descendant of its supervisor.
func tree(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, file := range stats {
		fields, err := statFields(filepath.Dir(file))
		if err != nil {
			continue // the process has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	out := []int{root}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out, nil
}

func supervises(pid int) bool {
	p, ok := readProcess(fmt.Sprintf("/proc/%d", pid))
	return ok && p.supervises()
}

// encloses reports whether a process makes a sandbox or is the bridge of one.
func encloses(pid int) bool {
	p, ok := readProcess(fmt.Sprintf("/proc/%d", pid))
	return ok && (filepath.Base(p.args[0]) == "bwrap" || len(p.args) > 1 && p.args[1] == bridge.Command)
}

// proportional returns the proportional set size of a process, in bytes: its
// own memory and its share of shared memory. It returns 0 if the process has
// ended.
func proportional(pid int) (size int, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "\nPss:")
	if _, err := fmt.Sscan(rest, &size); err != nil {
		return 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	return size << 10, nil
}
