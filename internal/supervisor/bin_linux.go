//go:build !supervise

package supervisor

import "embed"

// bin contains cmd/supervise, compiled for this system, if the Makefile has
// built it.
//
//go:embed all:bin
var bin embed.FS
