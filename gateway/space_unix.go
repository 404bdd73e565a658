//go:build linux || darwin

package gateway

import "golang.org/x/sys/unix"

// diskFull reports whether the disk of a directory has less free space than
// captureReserve.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < captureReserve
}
