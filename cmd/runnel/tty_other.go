//go:build !linux && !darwin && !windows

package main

import (
	"errors"
	"os"
	"syscall"
)

// These systems offer no call here to flush a terminal or to get its width.
// Lines typed before a question are still dropped when they are read.

func discardTyped(*os.File) {}

func columns(*os.File) int { return 0 }

// isBrokenPipe reports whether a write failed because the reader closed the
// pipe.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
