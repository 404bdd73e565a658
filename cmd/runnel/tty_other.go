//go:build !linux && !darwin && !windows

package main

import (
	"errors"
	"os"
	"syscall"
)

// Here a terminal is used without asking the system about it. What was typed
// before a question is dropped all the same when it is read.

func discardTyped(*os.File) {}

func columns(*os.File) int { return 0 }

// isBrokenPipe reports whether a write failed because nobody reads any more.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
