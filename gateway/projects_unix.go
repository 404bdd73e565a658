//go:build unix

package gateway

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// usable reports whether we may list, enter and change dir.
func usable(dir string) bool {
	return unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK) == nil
}

// onlyRootChanges reports whether a link in dir belongs to root, and we, who are
// another user, cannot replace it. Agents run as we do.
func onlyRootChanges(dir string, link fs.FileInfo) bool {
	st, ok := link.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && unix.Access(dir, unix.W_OK) != nil
}
