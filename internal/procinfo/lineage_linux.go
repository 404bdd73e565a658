package procinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Process is a process in a lineage: a process or one of its ancestors.
type Process struct {
	Pid        int
	Supervisor bool // its command line is that of a supervisor
}

const (
	// maxGenerations bounds the length of a lineage. Reused ids could form a
	// cycle.
	maxGenerations = 1024

	// lineageAttempts is how often Lineage retries after a process lost its
	// parent during the read. That is rare and happens once per process.
	lineageAttempts = 4
)

var errLineage = errors.New("the ancestors of the process changed while they were read")

// Lineage returns a process and its ancestors, nearest first. It returns an
// error if one of them has ended or cannot be read.
//
// All returned processes existed at the same time, if pid referred to the same
// process before and after the call. The caller ensures that with a handle: see
// [Peer.Verify] and [Handle.Ended].
func Lineage(pid int) ([]Process, error) {
	for range lineageAttempts {
		line, err := climb(pid)
		if err != nil {
			return nil, fmt.Errorf("read the ancestors of process %d: %w", pid, err)
		}
		if connected(line) {
			return line, nil
		}
	}
	return nil, errLineage
}

// climb reads a lineage from the process upwards.
func climb(pid int) ([]Process, error) {
	var line []Process
	for range maxGenerations {
		// Ignore the error of a process that has ended: ReadStat below fails
		// for it too. Return other errors, because any process of our user can
		// lower our limits so that one of the two files cannot be opened.
		supervisor, err := IsSupervisor(pid)
		if err != nil && !IsGone(err) {
			return nil, err
		}
		line = append(line, Process{pid, supervisor})
		if pid <= 1 {
			return line, nil
		}
		st, err := ReadStat(pid)
		if err != nil {
			return nil, err
		}
		if pid = st.Parent; pid == 0 { // the parent is outside our pid namespace
			return line, nil
		}
	}
	return nil, errLineage
}

// connected reads the parents in a lineage again, from the oldest process
// downwards, and reports whether all are unchanged.
//
// A parent that was read twice existed in between, since its child would
// otherwise have another parent. The oldest pair is compared first. So each
// process is proved to have existed while its ancestors were read.
func connected(line []Process) bool {
	for i := len(line) - 2; i >= 0; i-- {
		st, err := ReadStat(line[i].Pid)
		if err != nil || st.Parent != line[i+1].Pid {
			return false
		}
	}
	return true
}

// Supervised reports whether an ancestor of a process is a supervisor. That
// holds for every process that an agent starts, even if it detaches itself.
// Supervised also returns true if the process has ended or its ancestors cannot
// be read.
//
// A process can pretend to have a supervisor but cannot hide one, because it
// cannot change its ancestors or their /proc entries.
func Supervised(pid int) bool {
	line, err := Lineage(pid)
	return err != nil || belowSupervisor(line)
}

// belowSupervisor reports whether an ancestor in a lineage is a supervisor.
func belowSupervisor(line []Process) bool {
	return slices.ContainsFunc(line[1:], func(k Process) bool { return k.Supervisor })
}

// IsGone reports whether err means that a process has ended.
func IsGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// A Handle refers to one process while it is open, even if its pid is reused.
type Handle struct{ pidfd int }

// OpenHandle returns a handle of the process that has this pid now.
func OpenHandle(pid int) (Handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return Handle{}, fmt.Errorf("open a handle of process %d: %w", pid, err)
	}
	return Handle{fd}, nil
}

// Ended reports whether the process has ended. It also returns true if that
// cannot be determined. If it returns false, the pid has not been reused.
func (h Handle) Ended() bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.pidfd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n != 0 || err != nil
		}
	}
}

// Close releases the handle.
func (h Handle) Close() { unix.Close(h.pidfd) }
