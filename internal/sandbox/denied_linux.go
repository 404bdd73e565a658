package sandbox

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// remote are the types of file systems on which a look-up can reach another
// machine or wait for one.
var remote = []int64{
	unix.AUTOFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
	unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.PROC_SUPER_MAGIC,
}

// locate returns the canonical path of an existing path that a program chose.
// plain reports whether it is a directory, or a regular file without a further
// name. ok is false if the path does not exist, or is not on local file systems
// from the root on. locate mounts nothing.
func locate(path string) (canonical string, plain, ok bool) {
	for range maxLinks {
		next, plain, ok := walk(path)
		switch {
		case !ok:
			return "", false, false
		case next == path:
			return path, plain, true
		}
		path = next
	}
	return "", false, false
}

// walk walks to a path from the root without following links. At a link, it
// returns the path with the link replaced by its target.
func walk(path string) (next string, plain, ok bool) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false, false
	}
	defer func() { _ = unix.Close(at) }()
	names := strings.Split(strings.Trim(path, "/"), "/")
	var st unix.Stat_t
	for i, name := range names {
		var fs unix.Statfs_t
		if unix.Fstatfs(at, &fs) != nil || slices.Contains(remote, int64(fs.Type)) { //nolint:unconvert // another type on some architectures
			return "", false, false
		}
		below, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // an automounter does not mount for O_PATH
		if err != nil {
			return "", false, false
		}
		_ = unix.Close(at)
		at = below
		if unix.Fstat(at, &st) != nil {
			return "", false, false
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(at, "", buf)
		if err != nil {
			return "", false, false
		}
		target, rest := string(buf[:n]), filepath.Join(names[i+1:]...)
		if !filepath.IsAbs(target) {
			target = filepath.Join("/", filepath.Join(names[:i]...), target)
		}
		return filepath.Join(target, rest), false, true
	}
	kind := st.Mode & unix.S_IFMT
	return path, kind == unix.S_IFDIR || kind == unix.S_IFREG && st.Nlink == 1, true
}
