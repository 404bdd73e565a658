package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

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

// endGroup ends whoever is left in the child's process group, which is its own until reap.
func endGroup(pid int) { unix.Kill(-pid, unix.SIGKILL) }

// processes returns the process table. Threads are no rows of their own.
func processes() []entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := make([]entry, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if e, ok := process(pid); ok {
				table = append(table, e)
			}
		}
	}
	return table
}

func process(pid int) (entry, bool) {
	var buf [1024]byte
	stat := readProc(pid, "stat", buf[:])
	return parseStat(pid, stat)
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
func readProc(pid int, name string, buf []byte) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m <= 0 {
			break
		}
		n += m
	}
	return buf[:n]
}

// findMark looks for an entry in the environment that the process began with.
func findMark(pid int, entry string, buf []byte) finding {
	env := readProc(pid, "environ", buf)
	if len(env) == 0 { // just beginning, or its first thread has ended and others have not
		tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		for _, task := range tasks {
			if env = readProc(pid, "task/"+task.Name()+"/environ", buf); len(env) > 0 {
				break
			}
		}
	}
	want := []byte(entry + "\x00")
	switch {
	case len(env) == 0:
		return unknown
	case bytes.HasPrefix(env, want), bytes.Contains(env, append([]byte{0}, want...)):
		return present
	}
	return absent
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
	if now, ok := process(e.pid); !ok || now.identity != e.identity {
		return
	}
	if e.pgid == e.pid { // its group too, in one step: a process that forks all the time cannot slip away
		if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP) == nil {
			return
		}
	}
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}
