package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes(c Command) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.DieWithParent {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

const heldUntilReaped = true // after awaitExit

// awaitExit returns when the child is dead. It is not reaped, so that its number, its session's and its group's
// cannot be anyone else's until reap.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }

// list returns the numbers of all processes, in the order in which they are given out.
func list() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// process returns a row of the process table. Threads are no rows of their own.
func process(pid int) (entry, bool) {
	var buf [1024]byte
	stat, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, stat)
}

// survey adds to table who is not in it yet, and is complete if it reports true. Someone who ends while we look may
// have started someone whom we do not see; but numbers are given out in rising order, so that another survey does.
func survey(table map[int]entry, ended map[identity]bool) (complete bool) {
	complete = true
	for _, pid := range list() {
		if _, ok := table[pid]; ok {
			continue
		}
		e, ok := process(pid)
		if !ok {
			complete = false
			continue
		}
		table[pid] = e
		if e.dead && !ended[e.identity] {
			complete = false
		}
	}
	return complete
}

// parseStat reads the fields of /proc/PID/stat that we need. The program's name, in parentheses, may hold anything.
func parseStat(pid int, stat []byte) (entry, bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return entry{}, false
	}
	fields := bytes.Fields(stat[i+1:]) // from field 3 of proc(5) on
	if len(fields) < 20 {
		return entry{}, false
	}
	number := func(field int) uint64 {
		n, _ := strconv.ParseUint(string(fields[field-3]), 10, 64)
		return n
	}
	e := entry{
		identity: identity{pid: pid, start: number(22)},
		ppid:     int(number(4)),
		pgid:     int(number(5)),
		sid:      int(number(6)),
	}
	// A first thread that ended looks like a zombie while the other threads go on.
	state := fields[0][0]
	e.dead = state == 'X' || state == 'Z' && number(20) <= 1
	return e, true
}

// readProc reads as much of a file of /proc/PID as buf holds.
func readProc(pid int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m <= 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

// findMark looks for an entry in the environment that the process began with.
func findMark(pid int, entry string, buf []byte) finding {
	complete := hasEnviron(pid) // before it is read, or what was set up in between would count as empty
	env, err := readProc(pid, "environ", buf)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return absent // another user's, as a rule
	}
	if len(env) == 0 && complete {
		return absent
	}
	if len(env) == 0 { // its first thread may have ended, and others have not
		tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		for _, task := range tasks {
			if env, _ = readProc(pid, "task/"+task.Name()+"/environ", buf); len(env) > 0 {
				break
			}
		}
	}
	want := []byte(entry + "\x00")
	switch {
	case len(env) == 0:
		return unknown // just beginning, or gone
	case bytes.HasPrefix(env, want), bytes.Contains(env, append([]byte{0}, want...)):
		return present
	}
	return absent
}

// hasEnviron tells an empty environment from one that the kernel is still setting up.
func hasEnviron(pid int) bool {
	var buf [1024]byte
	stat, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return false
	}
	const envEnd = 51 // of proc(5)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > envEnd-3 && string(fields[envEnd-3]) != "0"
}

// kill sends SIGKILL to the process that e is, and to no other that has its number by now.
func kill(e entry) {
	fd, err := unix.PidfdOpen(e.pid, 0) // from here on the process, not the number
	if errors.Is(err, unix.ENOSYS) {
		if now, ok := process(e.pid); ok && now.identity == e.identity {
			unix.Kill(e.pid, unix.SIGKILL)
		}
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := process(e.pid); ok && now.identity == e.identity {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
