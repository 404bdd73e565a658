package proc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fence is a job object. All descendants of a child are in it too. The system
// kills them when the last handle to the job is closed. This process holds the
// only handle, so its own end kills them as well.
type fence struct{ job windows.Handle }

// newFence creates a fence. It returns nil if the system refuses. It fails if c
// has limits.
func newFence(c Command) (*fence, error) {
	if err := CheckLimits(c.Limits); err != nil {
		return nil, err
	}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, nil
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return nil, nil
	}
	return &fence{job}, nil
}

// enclose makes the child start suspended; hold resumes it.
func (f *fence) enclose(attr *syscall.SysProcAttr) {
	if f != nil {
		attr.CreationFlags |= windows.CREATE_SUSPENDED
	}
}

// hold puts the child into the fence and resumes it.
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

// resume resumes the only thread of a process that was created suspended.
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

func (*fence) note(*ExitStatus) {}

// kill kills all processes in the fence.
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

// CanFence reports whether children can get fences here.
func CanFence() bool {
	f, _ := newFence(Command{})
	defer f.close()
	return f != nil
}
