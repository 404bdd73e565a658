package procinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Kin is a process in a lineage.
type Kin struct {
	Pid        int
	Supervisor bool // its command line is that of a supervisor
}

const (
	// maxGenerations bounds a lineage. A reused pid may close a circle.
	maxGenerations = 1024

	// lineageAttempts is how often Lineage starts again because a process lost
	// its parent meanwhile, which is rare and happens once to a process.
	lineageAttempts = 4
)

var errLineage = errors.New("the ancestors of the process changed while they were read")

// Lineage returns a process and its ancestors, nearest first. It fails if one of
// them is gone or cannot be read.
//
// All returned processes existed at the same time, provided that pid named the
// same process from before the call until after it. A caller makes sure of that
// with a handle: see [Peer.Verify] and [Handle.Ended].
func Lineage(pid int) ([]Kin, error) {
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

// climb reads a lineage upwards.
func climb(pid int) ([]Kin, error) {
	var line []Kin
	for range maxGenerations {
		// The command line of a process that is gone cannot be read; nor can its
		// stat, which decides. Any process of our user can lower our limits, so
		// that one of the two files does not open, and the other does.
		supervisor, err := IsSupervisor(pid)
		if err != nil && !IsGone(err) {
			return nil, err
		}
		line = append(line, Kin{pid, supervisor})
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

// connected reads the parents in a lineage again, downwards, and reports whether
// all are still the same.
//
// A parent that was read twice lived in between, since its child would have got
// another one. The parent of the oldest process is compared first, so each
// process is proved to have lived while what is above it was read.
func connected(line []Kin) bool {
	for i := len(line) - 2; i >= 0; i-- {
		st, err := ReadStat(line[i].Pid)
		if err != nil || st.Parent != line[i+1].Pid {
			return false
		}
	}
	return true
}

// Supervised reports whether a supervisor is among the ancestors of a process,
// which is so for everything that an agent starts, however it detaches itself.
// It returns true, too, if the process is gone or its ancestors cannot be read.
//
// An agent can pretend to have a supervisor, but cannot hide the one it has: a
// process can change neither its ancestors nor what the system shows of them.
func Supervised(pid int) bool {
	line, err := Lineage(pid)
	return err != nil || belowSupervisor(line)
}

// belowSupervisor reports whether an ancestor in a lineage is a supervisor.
func belowSupervisor(line []Kin) bool {
	return slices.ContainsFunc(line[1:], func(k Kin) bool { return k.Supervisor })
}

// IsGone reports whether an error of this package means that a process has ended.
func IsGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// A Handle names one process for as long as it is open, where a pid may be used
// again.
type Handle struct{ pidfd int }

// OpenHandle returns a handle of the process that has the pid now.
func OpenHandle(pid int) (Handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return Handle{}, fmt.Errorf("open a handle of process %d: %w", pid, err)
	}
	return Handle{fd}, nil
}

// Ended reports whether the process has ended, or whether that cannot be
// determined. If it has not, its pid named no other process until now.
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
