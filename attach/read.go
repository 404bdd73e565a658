package attach

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// read returns the content of rel in dir if it is a regular file of at most
// left bytes.
func (c Checker) read(dir *os.Root, rel string, left int64) ([]byte, *refusal) {
	f, why := open(dir, rel)
	if why != nil {
		return nil, why
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, cannotRead()
	case !st.Mode().IsRegular():
		return nil, refuse(notRegular, "it is not a regular file")
	case !c.HardLinks && links(f, st) != 1:
		return nil, refuse(notRegular, "it has more than one name (hard links), one of which may be elsewhere")
	case st.Size() > MaxFile:
		return nil, refuse(tooLarge, "it is larger than 10 MiB")
	case st.Size() > left:
		return nil, refuse(overBudget, "with it the attachments would be larger than 18 MiB in total")
	}
	return c.content(f, st)
}

// content reads f and rejects it if its size is not st.Size() or it changes
// during the read.
func (c Checker) content(f *os.File, st fs.FileInfo) ([]byte, *refusal) {
	changed := refuse(unreadable, "it changed while it was read")
	data := make([]byte, st.Size()+1)
	n, err := io.ReadFull(f, data)
	switch {
	case err == nil, int64(n) < st.Size(): // the file grew or shrank
		return nil, changed
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, cannotRead()
	}
	now, err := f.Stat()
	if err != nil || now.Size() != st.Size() || !now.ModTime().Equal(st.ModTime()) || !c.HardLinks && links(f, now) != 1 {
		return nil, changed
	}
	return data[:n:n], nil
}

func cannotRead() *refusal { return refuse(unreadable, "it does not exist or cannot be read") }

// open opens rel in dir for reading, one path element after the other. No
// element may be a symbolic link. It opens nothing but regular files, because
// opening a pipe can block and opening a device can have side effects. It stats
// each element, opens it and verifies that it opened the same file.
func open(dir *os.Root, rel string) (*os.File, *refusal) {
	elems := strings.Split(filepath.ToSlash(rel), "/")
	last := len(elems) - 1
	for i, name := range elems[:last] {
		next, why := enter(dir, name)
		if i > 0 {
			dir.Close()
		}
		if why != nil {
			return nil, why
		}
		dir = next
	}
	if last > 0 {
		defer dir.Close()
	}
	seen, err := dir.Lstat(elems[last])
	switch {
	case err != nil:
		return nil, cannotRead()
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, isLink()
	case !seen.Mode().IsRegular():
		return nil, refuse(notRegular, "it is not a regular file")
	}
	return openSeen(dir, elems[last], seen)
}

// openSeen opens the file name in dir if it is still the file that seen
// describes.
func openSeen(dir *os.Root, name string, seen fs.FileInfo) (*os.File, *refusal) {
	f, err := dir.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, cannotRead()
	}
	if st, err := f.Stat(); err != nil || !os.SameFile(seen, st) {
		f.Close()
		return nil, isLink()
	}
	return f, nil
}

// enter opens the directory name in dir if it is not a symbolic link.
func enter(dir *os.Root, name string) (*os.Root, *refusal) {
	seen, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, cannotRead()
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, isLink()
	case !seen.IsDir():
		return nil, cannotRead()
	}
	return enterSeen(dir, name, seen)
}

// enterSeen opens the directory name in dir if it is still the directory that
// seen describes.
func enterSeen(dir *os.Root, name string, seen fs.FileInfo) (*os.Root, *refusal) {
	sub, err := openRoot(dir.OpenRoot, name)
	if err != nil {
		return nil, cannotRead()
	}
	if st, err := sub.Stat("."); err != nil || !os.SameFile(seen, st) {
		sub.Close()
		return nil, isLink()
	}
	return sub, nil
}

// openRoot opens a directory with "/." appended to its name. If the name is a
// pipe, this returns an error at once, whereas opening the pipe itself would
// block.
func openRoot(open func(string) (*os.Root, error), name string) (*os.Root, error) {
	return open(name + string(filepath.Separator) + ".")
}

func isLink() *refusal {
	return refuse(linked, "it is a symbolic link or lies behind one")
}
