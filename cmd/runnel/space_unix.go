//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// space describes the file system of a directory, as this user sees it.
type space struct {
	free     uint64 // in bytes
	readOnly bool
}

func spaceOf(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, err
	}
	const readOnly = 1 // MNT_RDONLY, which Linux calls ST_RDONLY
	return space{free: st.Bavail * uint64(st.Bsize), readOnly: st.Flags&readOnly != 0}, nil
}
