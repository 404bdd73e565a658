package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// remote are the types of file systems on which a look-up can reach another
// machine or wait for one. remoteNames are their names, which may have a suffix
// such as that of fuse.sshfs.
var remote = []int64{
	unix.AUTOFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC,
	unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.PROC_SUPER_MAGIC,
}

var remoteNames = []string{"autofs", "nfs", "nfs4", "smbfs", "smb3", "cifs", "fuse", "fuseblk", "afs", "ceph", "coda", "9p", "proc"}

// remoteMounts returns the directories at which such file systems are mounted.
// ok is false if they are not known.
func remoteMounts() (dirs map[string]bool, ok bool) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, false
	}
	dirs = make(map[string]bool)
	for line := range strings.Lines(string(table)) {
		mount, rest, found := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(rest)
		if !found || len(fields) < 5 || len(kind) == 0 {
			continue
		}
		if name, _, _ := strings.Cut(kind[0], "."); slices.Contains(remoteNames, name) {
			dirs[escapes.Replace(fields[4])] = true
		}
	}
	return dirs, true
}

// escapes are those of paths in mountinfo.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// locate returns the canonical path of an existing path that a program chose.
// plain reports whether it is a directory, or a regular file without a further
// name. ok is false if the path does not exist, or is not on local file systems
// from the root on. locate mounts nothing.
func locate(path string) (canonical string, plain, ok bool) {
	mounts, ok := remoteMounts()
	if !ok {
		return "", false, false
	}
	for range maxLinks {
		next, plain, ok := walk(path, mounts)
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
// returns the path with the link replaced by its target. It does not touch
// mounts, because a server that does not respond would block even that.
func walk(path string, mounts map[string]bool) (next string, plain, ok bool) {
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
		if mounts["/"+filepath.Join(names[:i+1]...)] {
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
