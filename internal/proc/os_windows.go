package proc

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const ownSessions = false

func attributes(Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// ask sends the child's process group a break event. Windows has no other way
// to request an end.
func ask(p *os.Process, r rung) {
	if r == interrupted {
		windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
	}
}

func freeze(*os.Process) {}

func force(p *os.Process) { p.Kill() }

func usableDir(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

func signalName(*os.ProcessState) string { return "" }

// readNow reads the contents of the pipe without waiting. It returns
// errNothingThere if the pipe is empty and open.
func readNow(f *os.File, p []byte) (int, error) {
	var there uint32
	ok, _, err := peekNamedPipe().Call(f.Fd(), 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0)
	switch {
	case ok == 0 && err == windows.ERROR_BROKEN_PIPE:
		return 0, io.EOF
	case ok == 0:
		return 0, err
	case there == 0:
		return 0, errNothingThere
	}
	return f.Read(p[:min(len(p), int(there))])
}

func peekNamedPipe() *windows.LazyProc {
	return windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe") // works on every pipe
}

const heldUntilReaped = true // after awaitExit

// awaitExit returns when the child has ended. The os package holds a handle to
// it, so its id is not reused.
func awaitExit(cmd *exec.Cmd) {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(cmd.Process.Pid))
	if err != nil {
		cmd.Process.Wait()
		return
	}
	defer windows.CloseHandle(h)
	windows.WaitForSingleObject(h, windows.INFINITE)
}

func reap(cmd *exec.Cmd) error { return cmd.Wait() }

func endGroup(int) {}

// survey reads the whole process table at once.
func survey(table map[int]entry, _ map[identity]bool, _ uint64) (complete, sees bool) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return false, false
	}
	defer windows.CloseHandle(snapshot)
	row := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &row); err == nil; err = windows.Process32Next(snapshot, &row) {
		if e, ok := process(int(row.ProcessID)); ok {
			e.ppid = int(row.ParentProcessID)
			table[e.pid] = e
		}
	}
	return true, true
}

// process returns the entry of a process without its parent, which only survey
// can determine.
func process(pid int) (entry, bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return entry{}, false
	}
	defer windows.CloseHandle(h)
	start, ok := startOf(h)
	return entry{identity: identity{pid: pid, start: start}, dead: ended(h)}, ok
}

func startOf(h windows.Handle) (uint64, bool) {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return 0, false
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), true
}

func ended(h windows.Handle) bool {
	const stillActive = 259
	var code uint32
	return windows.GetExitCodeProcess(h, &code) == nil && code != stillActive
}

func findMark(int, string, []byte) finding { return absent }

// kill terminates the process e. The handle keeps the id from being reused
// during the check.
func kill(e entry) {
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(e.pid))
	if err != nil {
		return
	}
	defer windows.CloseHandle(h)
	if start, ok := startOf(h); ok && start == e.start {
		windows.TerminateProcess(h, 1)
	}
}
