//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkDir checks that this user owns a directory and nobody else can use it.
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

// checkFile checks an open file. path is for errors. The file must belong to
// this user or to root. If root owns it, its group may read it: that is how an
// administrator gives this user a secret.
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

// less returns the mode for chmod that leaves other users only the access
// allowed.
func less(allowed Access) string {
	if allowed == Nothing {
		return "go="
	}
	return "go-w"
}

// checkFolder checks that other users cannot replace the content of a folder.
// In a sticky folder they can replace only their own files.
func checkFolder(path string, info fs.FileInfo) error {
	if owner := ownerOf(info); !trusted(owner) {
		return foreign(path, owner)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return &Error{path, fmt.Sprintf("can be changed by others (mode %04o), who could replace what is in it", mode.Perm()), "run: chmod go-w " + Quote(path)}
	}
	return nil
}

// checkLink checks the owner of a symbolic link. Even in a sticky folder
// another user could replace a link of their own.
func checkLink(path string, info fs.FileInfo) error {
	if owner := ownerOf(info); !trusted(owner) {
		return foreign(path, owner)
	}
	return nil
}

func foreign(path string, owner int) *Error {
	return &Error{
		path, fmt.Sprintf("belongs to user %d, not to you, user %d", owner, os.Geteuid()),
		fmt.Sprintf("run: sudo chown -h %d %s", os.Geteuid(), Quote(path)),
	}
}

// trusted reports whether files of this owner are as safe as our own.
func trusted(owner int) bool {
	return owner == os.Geteuid() || owner == 0 || owner == unmapped()
}

// Foreign reports whether another user, who is not root, owns a file.
func Foreign(info fs.FileInfo) bool { return !trusted(ownerOf(info)) }

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return os.Geteuid()
}
