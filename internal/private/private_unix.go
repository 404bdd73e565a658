//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkDir checks a directory that only its owner may use.
func checkDir(path string, info fs.FileInfo) error {
	if owner := ownerOf(info); owner != os.Geteuid() {
		e := foreign(path, owner)
		e.Fix = "choose another directory, or " + e.Fix
		return e
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &Error{path, fmt.Sprintf("can be used by others (mode %04o)", mode), "run: chmod 700 " + Quote(path)}
	}
	return nil
}

// checkFile checks a file that was opened at path. Its owner is this user or
// the system's administrator, who may let a group of this user read it.
func checkFile(path string, info fs.FileInfo, allowed Access) error {
	owner := ownerOf(info)
	if !trusted(owner) {
		return foreign(path, owner)
	}
	mode := info.Mode().Perm()
	if mode&0o022 != 0 {
		return &Error{path, fmt.Sprintf("can be changed by others (mode %04o)", mode), "run: chmod " + less(allowed) + " " + Quote(path)}
	}
	readable := fs.FileMode(0o044)
	if owner == 0 && os.Geteuid() != 0 {
		readable = 0o004
	}
	if allowed == Nothing && mode&readable != 0 {
		return &Error{path, fmt.Sprintf("can be read by others (mode %04o) and holds secrets", mode), "run: chmod " + less(allowed) + " " + Quote(path)}
	}
	return nil
}

// less returns what chmod takes to leave others only the access allowed.
func less(allowed Access) string {
	if allowed == Nothing {
		return "go="
	}
	return "go-w"
}

// checkFolder checks that others cannot replace what is in a folder. Where the
// folder is sticky, they can replace only what is theirs.
func checkFolder(path string, info fs.FileInfo) error {
	if owner := ownerOf(info); !trusted(owner) {
		return foreign(path, owner)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return &Error{path, fmt.Sprintf("can be changed by others (mode %04o), who could replace what is in it", mode.Perm()), "run: chmod go-w " + Quote(path)}
	}
	return nil
}

// checkLink checks a symbolic link. Others could replace one that is theirs
// even in a sticky folder.
func checkLink(path string, info fs.FileInfo) error {
	if owner := ownerOf(info); !trusted(owner) {
		return foreign(path, owner)
	}
	return nil
}

func foreign(path string, owner int) *Error {
	return &Error{
		path, fmt.Sprintf("belongs to user %d and not to us, user %d", owner, os.Geteuid()),
		fmt.Sprintf("run: sudo chown -h %d %s", os.Geteuid(), Quote(path)),
	}
}

// trusted reports whether a file of this owner is as good as our own.
func trusted(owner int) bool {
	return owner == os.Geteuid() || owner == 0 || owner == unmapped()
}

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return os.Geteuid()
}
