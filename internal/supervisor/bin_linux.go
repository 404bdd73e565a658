//go:build !supervise

package supervisor

import "embed"

// bin holds cmd/supervise as a program for this system, if it was built before:
// see the Makefile.
//
//go:embed all:bin
var bin embed.FS
