//go:build !linux

package sandbox

import "runtime"

var errNoLandlock = &Error{Why: "sandbox: files needs Linux with Landlock; this system is " + runtime.GOOS}

// Confined fails: only Linux has sandboxes.
func (Box) Confined() (path string, args, env []string, err error) {
	return "", nil, nil, errNoLandlock
}

// CheckFiles fails: only Linux has sandboxes.
func CheckFiles() error { return errNoLandlock }
