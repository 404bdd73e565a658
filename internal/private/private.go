// Package private checks that other users of this machine can neither change
// our files nor read our secrets.
package private

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// Access is what other users may do with a file.
type Access int

// Values of Access.
const (
	Read    Access = iota // may read it, but not change it
	Nothing               // may neither read nor change it
)

// An Error describes what is wrong with a file or folder.
type Error struct {
	Path    string
	Problem string // such as "can be read by others (mode 0644)"
	Fix     string // what the user should do; "run: " is followed by a shell command
}

func (e *Error) Error() string { return e.Path + " " + e.Problem + "; " + e.Fix }

// Dir creates the directory dir and the missing folders above it. If dir
// exists, Dir checks that only this user can use it. It also checks every
// existing folder on the way to dir, so that no other user can replace it.
func Dir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := checkPath(existing(filepath.Dir(path))); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return CheckDir(path)
}

// CheckDir makes the checks of [Dir] without creating anything. It returns
// [fs.ErrNotExist] if dir does not exist and the folders above it are safe.
func CheckDir(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := checkPath(existing(filepath.Dir(path))); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return &Error{path, "is a symbolic link", "name the directory it leads to"}
	}
	return checkDir(path, info)
}

// existing returns path, or the nearest folder above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// CheckFile checks that other users have at most the access allowed to the file
// at path, and that they cannot replace it. For that it checks every folder and
// every link on the way to the file. It rejects anything but a regular file.
func CheckFile(path string, allowed Access) error {
	_, err := read(path, allowed, 0)
	return err
}

// ReadFile checks the file at path like [CheckFile] and returns its content. It
// fails if the content has more than limit bytes.
func ReadFile(path string, allowed Access, limit int64) ([]byte, error) {
	data, err := read(path, allowed, limit+1)
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

func read(path string, allowed Access, limit int64) ([]byte, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block us
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{path, "is not a regular file", "put a regular file there, or name another file"}
	}
	if err := checkFile(path, info, allowed); err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// maxLinks is the maximum number of symbolic links on the way to a file, the
// same as the kernel's.
const maxLinks = 40

// checkPath checks every folder and every link on the way to path, and path
// itself if it is a folder. path must exist.
func checkPath(path string) error {
	at, rest := root(path)
	links := 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return &Error{path, "leads through too many symbolic links", "name the file itself"}
			}
			if err := checkLink(at, info); err != nil {
				return err
			}
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if !filepath.IsAbs(target) {
				target = filepath.Dir(at) + string(filepath.Separator) + target
			}
			at, rest = root(target + string(filepath.Separator) + rest)
			continue
		case info.IsDir():
			if err := checkFolder(at, info); err != nil {
				return err
			}
		}
		var name string
		for name == "" || name == "." {
			if rest == "" {
				return nil
			}
			name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		}
		at = filepath.Join(at, name) // ".." leads to the parent folder, because at is no link
	}
}

// root splits an absolute path into its root and the rest.
func root(path string) (root, rest string) {
	volume := filepath.VolumeName(path)
	separator := string(filepath.Separator)
	return volume + separator, strings.TrimLeft(path[len(volume):], separator)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./@%+=:,-]+$`)

// Quote returns path quoted as one word for a shell.
func Quote(path string) string {
	if plain.MatchString(path) && !strings.HasPrefix(path, "-") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
