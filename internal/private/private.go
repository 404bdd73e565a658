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
)

// Access says what other users may do with a file.
type Access int

// What other users may do.
const (
	Read    Access = iota // read it, and not change it
	Nothing               // neither read nor change it
)

// An Error says what is wrong with a file or folder.
type Error struct {
	Path    string
	Problem string // such as "can be read by others (mode 0644)"
	Fix     string // what to do about it; a command follows "run: "
}

func (e *Error) Error() string { return e.Path + " " + e.Problem + "; " + e.Fix }

// Dir makes the directory dir. If dir exists, Dir checks that only this user
// can use it. Dir also checks every folder on the way to dir, so that no other
// user can replace it.
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

// CheckDir is [Dir] for a check that changes nothing: it returns
// [fs.ErrNotExist] if dir does not exist and Dir could make it.
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

// existing returns path, or the nearest folder above it that there is.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// CheckFile checks that others have no more access than allowed to the file at
// path, and that nobody else can replace it: it checks every folder and every
// link on the way to it.
func CheckFile(path string, allowed Access) error {
	_, err := read(path, allowed, 0)
	return err
}

// ReadFile checks the file at path like [CheckFile] and returns its content, of
// at most limit bytes.
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFile(path, info, allowed); err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// maxLinks bounds the symbolic links on the way to a file, as the kernel does.
const maxLinks = 40

// checkPath checks every folder and every link on the way to path, which
// exists, and path itself if it is a folder.
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
		at = filepath.Join(at, name) // at is no link, so that ".." is the folder above it
	}
}

// root splits an absolute path behind its root.
func root(path string) (root, rest string) {
	volume := filepath.VolumeName(path)
	separator := string(filepath.Separator)
	return volume + separator, strings.TrimLeft(path[len(volume):], separator)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./@%+=:,-]+$`)

// Quote returns path as one word of a shell's command line.
func Quote(path string) string {
	if plain.MatchString(path) && !strings.HasPrefix(path, "-") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
