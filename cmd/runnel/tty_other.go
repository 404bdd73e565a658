//go:build !linux && !darwin && !windows

package main

import (
	"errors"
	"os"
	"syscall"
)

// On these systems runnel can neither flush a terminal nor get its width. Lines
// typed before a question are still dropped when they are read.

func discardTyped(*os.File) {}

func columns(*os.File) int { return 0 }

// enableSequences makes a terminal obey control sequences, and reports whether
// it does.
func enableSequences(*os.File) bool { return true }

// setEcho does nothing. What the user types may disturb the live lines.
func setEcho(*os.File, bool) (before bool) { return true }

// isBrokenPipe reports whether a write failed because the reader closed the
// pipe.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
