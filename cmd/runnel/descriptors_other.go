//go:build !unix

package main

import "math"

// descriptors returns the maximum number of files and connections that this
// process may open. This system has no limit that matters.
func descriptors() int { return math.MaxInt32 }
