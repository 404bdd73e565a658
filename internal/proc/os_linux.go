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

// awaitExit returns when the child has ended. It does not reap the child, so
// the ids of the child, its session and its group are not reused before reap.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }

// process returns the entry of a process. Threads have no entries of their own.
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

// list returns the ids of all processes, as far as they can be listed.
func list() []int {
	pids, _ := procinfo.Pids()
	return pids
}

// survey adds processes to table that it does not hold yet, except for other
// processes that started before the time since. complete means that no process
// can be missing. If a process ended during the survey, it may have
// started another that the survey missed. Ids are assigned in rising order, so
// the next survey finds it. sees is false if the table cannot be read, for
// example for lack of file descriptors.
func survey(table map[int]entry, ended map[identity]bool, since uint64) (complete, sees bool) {
	pids, err := procinfo.Pids()
	if err != nil {
		return false, false
	}
	complete = true
	self := os.Getpid()
	for _, pid := range pids {
		if _, ok := table[pid]; ok {
			continue
		}
		folder, known := folderOf(pid) // before its status, see note
		if known && pid != self && elders.older(pid, folder, since) {
			continue
		}
		st, err := procinfo.ReadStat(pid)
		if isResourceLimit(err) {
			return false, false
		}
		if err != nil {
			complete = false
			continue
		}
		if known {
			elders.note(pid, folder, st.Start)
		}
		e := row(st)
		table[pid] = e
		if e.dead && !ended[e.identity] {
			complete = false
		}
	}
	elders.keep(pids)
	return complete, true
}

// isResourceLimit reports whether err means that a resource limit prevented an
// open. Any process of our user can cause that temporarily by changing our
// limits.
func isResourceLimit(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// findMark searches the initial environment of the process for an entry.
func findMark(pid int, entry string, buf []byte) finding {
	complete := hasEnviron(pid) // checked before the read: an environment that is set up in between would count as empty
	env, err := procinfo.ReadFile(pid, "environ", buf)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return absent // usually the process of another user
	}
	if len(env) == 0 && complete {
		return absent
	}
	if len(env) == 0 { // the first thread may have ended while others run
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
		return unknown // the process is just starting, or has ended
	case bytes.HasPrefix(env, want), bytes.Contains(env, append([]byte{0}, want...)):
		return present
	}
	return absent
}

// hasEnviron reports whether the kernel has set up the environment of a
// process. It distinguishes an empty environment from one that is not yet set
// up.
func hasEnviron(pid int) bool {
	st, err := procinfo.ReadStat(pid)
	return err == nil && st.HasEnviron
}

// kill sends SIGKILL to the process e. It never signals another process that
// has reused the id.
func kill(e entry) {
	fd, err := unix.PidfdOpen(e.pid, 0) // from here on the descriptor refers to one process
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
