//go:build unix

package gateway

import "golang.org/x/sys/unix"

// usable reports whether we may list, enter and change dir.
func usable(dir string) bool {
	return unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) == nil
}
