package proc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fence is a job object: whatever a child starts is in it, too, and the system
// ends all of it when the last handle to it, which is ours, is closed, also by
// our own death.
type fence struct{ job windows.Handle }

// newFence makes one. It returns nil where there can be none.
func newFence(Command) *fence {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return nil
	}
	return &fence{job}
}

// enclose has the child wait until it is inside.
func (f *fence) enclose(attr *syscall.SysProcAttr) {
	if f != nil {
		attr.CreationFlags |= windows.CREATE_SUSPENDED
	}
}

// hold puts the child inside and lets it run.
func (f *fence) hold(pid int) error {
	if f == nil {
		return nil
	}
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(f.job, h); err != nil {
		return err
	}
	return resume(uint32(pid))
}

// resume lets the threads of a process run that was created suspended; it has
// one.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(snapshot)
	row := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &row); err == nil; err = windows.Thread32Next(snapshot, &row) {
		if row.OwnerProcessID == pid {
			return resumeThread(row.ThreadID)
		}
	}
	return err
}

func resumeThread(id uint32) error {
	h, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, id)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	_, err = windows.ResumeThread(h)
	return err
}

func (*fence) where() string { return "" }

// kill ends all that is inside.
func (f *fence) kill() {
	if f != nil {
		_ = windows.TerminateJobObject(f.job, 1)
	}
}

func (f *fence) close() {
	if f != nil {
		windows.CloseHandle(f.job)
	}
}

func endFence(string) (clear bool) { return true }

// CanFence reports whether children get fences.
func CanFence() bool {
	f := newFence(Command{})
	defer f.close()
	return f != nil
}
