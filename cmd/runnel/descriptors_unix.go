//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptors returns the maximum number of files and connections that this
// process may open.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
