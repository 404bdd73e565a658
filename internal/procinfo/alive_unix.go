//go:build unix && !linux

package procinfo

import (
	"errors"
	"syscall"
)

// A Running describes a process that runs.
type Running struct {
	Start   string // always "" on this system
	Session string // always "" on this system
	Child   bool   // always false on this system
	Ends    bool   // always false on this system
}

// RunningProcess reports whether a process pid runs. It ignores start on this
// system, so a reused pid counts.
func RunningProcess(pid int, _ string) (r Running, ok bool) {
	if pid <= 0 {
		return r, false
	}
	err := syscall.Kill(pid, 0)
	return r, err == nil || errors.Is(err, syscall.EPERM)
}
