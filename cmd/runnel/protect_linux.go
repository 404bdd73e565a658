package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// hideMemory prevents other processes of the same user, especially agents, from
// reading this process's memory, environment and open files.
func hideMemory() (undo func(), err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide the memory of runnel from other processes: %w", err)
	}
	return func() {}, nil
}

// adoptOrphans makes this process the parent of processes that an agent leaves
// behind, so that it can identify and end them.
func adoptOrphans() (undo func(), err error) {
	stop, err := proc.BecomeSubreaper()
	if err != nil {
		return nil, fmt.Errorf("become the parent of processes that agents leave behind: %w", err)
	}
	return stop, nil
}
