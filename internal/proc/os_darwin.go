package proc

import (
	"errors"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func attributes(Command) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

const heldUntilReaped = true // after awaitExit

// awaitExit returns when the child has ended and is not yet reaped, as on
// Linux.
func awaitExit(cmd *exec.Cmd) {
	const pPID = 1
	var info [16]uint64 // larger than the system's siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(cmd.Process.Pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if !errors.Is(errno, syscall.EINTR) {
			return
		}
	}
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }

// survey reads the whole table in one call.
func survey(table map[int]entry, _ map[identity]bool, _ uint64) (complete, sees bool) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return false, false
	}
	for i := range list {
		e := fromKernel(&list[i])
		table[e.pid] = e
	}
	return true, true
}

func process(pid int) (entry, bool) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil || len(list) != 1 {
		return entry{}, false
	}
	return fromKernel(&list[0]), true
}

func fromKernel(k *unix.KinfoProc) entry {
	const zombie = 5 // SZOMB
	pid := int(k.Proc.P_pid)
	sid, err := unix.Getsid(pid)
	if err != nil {
		sid = 0
	}
	return entry{
		identity: identity{pid: pid, start: uint64(k.Proc.P_starttime.Nano())},
		ppid:     int(k.Eproc.Ppid),
		pgid:     int(k.Eproc.Pgid),
		sid:      sid,
		dead:     k.Proc.P_stat == zombie,
	}
}

func findMark(int, string, []byte) finding { return absent }

// kill sends SIGKILL to e after checking its identity. The system has no
// process handles, so in theory the id could be reused between the check and
// the signal.
func kill(e entry) {
	if now, ok := process(e.pid); ok && now.identity == e.identity {
		unix.Kill(e.pid, unix.SIGKILL)
	}
}
