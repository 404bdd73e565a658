package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// hideMemory keeps other processes of the same user, agents above all, from
// reading our memory, environment and open files.
func hideMemory() (undo func(), err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide our memory from other processes: %w", err)
	}
	return func() {}, nil
}

// adoptOrphans makes what an agent leaves behind ours, so that we can end it
// and know it for what it is.
func adoptOrphans() (undo func(), err error) {
	stop, err := proc.BecomeSubreaper()
	if err != nil {
		return nil, fmt.Errorf("adopt what agents leave behind: %w", err)
	}
	return stop, nil
}
