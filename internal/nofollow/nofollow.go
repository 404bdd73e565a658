// Package nofollow opens files below a directory without following symbolic
// links. It opens nothing but regular files and directories, because opening a
// pipe can block and opening a device can have side effects.
//
// Each element of a path is examined, opened and compared with what was
// examined. Replacing an element meanwhile therefore gains nothing.
package nofollow

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The errors of this package.
var (
	ErrUnreadable = errors.New("it does not exist or cannot be read")
	ErrLink       = errors.New("it is a symbolic link or lies behind one")
	ErrNotRegular = errors.New("it is not a regular file")
	ErrTooLong    = errors.New("it is too long")
)

// Root opens a directory. If the name is a pipe, Root returns an error at once,
// whereas [os.OpenRoot] would block. Unlike the other functions, Root follows
// symbolic links in the name.
func Root(name string) (*os.Root, error) { return os.OpenRoot(inside(name)) }

// RootInPlace opens a directory whose path has no symbolic links. It returns
// ErrLink if an element of the path is a link now. A program that replaces an
// element again and again gains nothing.
func RootInPlace(name string) (*os.Root, error) {
	root, err := Root(name)
	if err != nil {
		return nil, ErrUnreadable
	}
	real, err := filepath.EvalSymlinks(name)
	if err == nil && real == filepath.Clean(name) {
		named, err := os.Lstat(name)
		opened, err2 := root.Stat(".")
		if err == nil && err2 == nil && os.SameFile(named, opened) {
			return root, nil
		}
	}
	_ = root.Close()
	return nil, ErrLink
}

// inside returns the name of the directory itself within a directory. If name
// is a pipe, opening the result fails at once.
func inside(name string) string { return name + string(filepath.Separator) + "." }

// Open opens the regular file rel in dir for reading. It returns one of the
// errors of this package.
func Open(dir *os.Root, rel string) (*os.File, error) {
	parent, name := split(rel)
	dir, done, err := descend(dir, parent)
	if err != nil {
		return nil, err
	}
	defer done()
	seen, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, ErrUnreadable
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !seen.Mode().IsRegular():
		return nil, ErrNotRegular
	}
	return openSeen(dir, name, seen)
}

// ReadSmall returns the content of the regular file at path, at most limit
// bytes. It does not follow path if it is a link, but follows links to its
// directory.
func ReadSmall(path string, limit int64) ([]byte, error) {
	dir, err := Root(filepath.Dir(path))
	if err != nil {
		return nil, ErrUnreadable
	}
	defer dir.Close()
	f, err := Open(dir, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = ErrTooLong
	}
	return data, err
}

// OpenDir opens the directory rel in dir, which may be ".". It returns one of
// the errors of this package.
func OpenDir(dir *os.Root, rel string) (*os.Root, error) {
	if filepath.Clean(rel) == "." {
		sub, err := dir.OpenRoot(".")
		if err != nil {
			return nil, ErrUnreadable
		}
		return sub, nil
	}
	parent, name := split(rel)
	dir, done, err := descend(dir, parent)
	if err != nil {
		return nil, err
	}
	defer done()
	return enter(dir, name)
}

// split returns the elements of rel before the last one, and the last one.
func split(rel string) (parent []string, name string) {
	elems := strings.Split(filepath.ToSlash(rel), "/")
	last := len(elems) - 1
	return elems[:last], elems[last]
}

// descend enters the directories elems of dir, one after the other. The caller
// calls done when it no longer needs the result.
func descend(dir *os.Root, elems []string) (sub *os.Root, done func(), err error) {
	done = func() {}
	for _, name := range elems {
		next, err := enter(dir, name)
		done()
		if err != nil {
			return nil, nil, err
		}
		dir, done = next, func() { _ = next.Close() }
	}
	return dir, done, nil
}

// openSeen opens the file name in dir if it is still the file that seen
// describes.
func openSeen(dir *os.Root, name string, seen fs.FileInfo) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, ErrUnreadable
	}
	if st, err := f.Stat(); err != nil || !os.SameFile(seen, st) {
		_ = f.Close()
		return nil, ErrLink
	}
	return f, nil
}

// enter opens the directory name in dir if it is not a symbolic link.
func enter(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, ErrUnreadable
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !seen.IsDir():
		return nil, ErrUnreadable
	}
	return enterSeen(dir, name, seen)
}

// enterSeen opens the directory name in dir if it is still the directory that
// seen describes.
func enterSeen(dir *os.Root, name string, seen fs.FileInfo) (*os.Root, error) {
	sub, err := dir.OpenRoot(inside(name))
	if err != nil {
		return nil, ErrUnreadable
	}
	if st, err := sub.Stat("."); err != nil || !os.SameFile(seen, st) {
		_ = sub.Close()
		return nil, ErrLink
	}
	return sub, nil
}
