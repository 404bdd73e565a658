//go:build !unix

package main

import "math"

// descriptors returns how many files and connections this process may open: the
// system sets no limit that matters.
func descriptors() int { return math.MaxInt32 }
