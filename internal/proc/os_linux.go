package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

func attributes(c Command) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.DieWithParent {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

const heldUntilReaped = true // after awaitExit

// awaitExit returns when the child is dead. It is not reaped, so that its
// number, its session's and its group's cannot be anyone else's until reap.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }

// process returns a row of the process table. Threads are no rows of their own.
func process(pid int) (entry, bool) {
	st, err := procinfo.ReadStat(pid)
	if err != nil {
		return entry{}, false
	}
	return row(st), true
}

func row(st procinfo.Stat) entry {
	return entry{
		identity: identity{pid: st.Pid, start: st.Start},
		ppid:     st.Parent, pgid: st.Group, sid: st.Session, dead: st.Dead,
	}
}

// list returns the numbers of all processes, as far as they can be listed.
func list() []int {
	pids, _ := procinfo.Pids()
	return pids
}

// survey adds to table who is not in it yet, and is complete if it reports
// true. Someone who ends while we look may have started someone whom we do not
// see; but numbers are given out in rising order, so that another survey does.
// It does not see if a file of the table did not open for want of descriptors.
func survey(table map[int]entry, ended map[identity]bool) (complete, sees bool) {
	pids, err := procinfo.Pids()
	if err != nil {
		return false, false
	}
	complete = true
	for _, pid := range pids {
		if _, ok := table[pid]; ok {
			continue
		}
		st, err := procinfo.ReadStat(pid)
		if starved(err) {
			return false, false
		}
		if err != nil {
			complete = false
			continue
		}
		e := row(st)
		table[pid] = e
		if e.dead && !ended[e.identity] {
			complete = false
		}
	}
	return complete, true
}

// starved reports whether a file did not open because there are too many. Any
// process of our user can bring that about, and end it again, by our limits.
func starved(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// findMark looks for an entry in the environment that the process began with.
func findMark(pid int, entry string, buf []byte) finding {
	complete := hasEnviron(pid) // before it is read, or what was set up in between would count as empty
	env, err := procinfo.ReadFile(pid, "environ", buf)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return absent // another user's, as a rule
	}
	if len(env) == 0 && complete {
		return absent
	}
	if len(env) == 0 { // its first thread may have ended, and others have not
		tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		for _, task := range tasks {
			if env, _ = procinfo.ReadFile(pid, "task/"+task.Name()+"/environ", buf); len(env) > 0 {
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

// hasEnviron tells an empty environment from one that the kernel is still
// setting up.
func hasEnviron(pid int) bool {
	st, err := procinfo.ReadStat(pid)
	return err == nil && st.HasEnviron
}

// kill sends SIGKILL to the process that e is, and to no other that has its
// number by now.
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
