//go:build !linux

package sandbox

import (
	"context"
	"runtime"
)

var errSystem = &Error{Why: "sandbox: project needs Linux with bubblewrap; this system is " + runtime.GOOS}

// Command fails: only Linux has sandboxes.
func (Box) Command() (path string, args, env []string, err error) { return "", nil, nil, errSystem }

// Check fails: only Linux has sandboxes.
func Check(context.Context, ...string) error { return errSystem }
