package agentconn

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// OpenPlain opens one of the agent's own files for reading. open is
// [os.OpenFile] or the method of an [os.Root]. OpenPlain fails if the file is
// not a regular file: any program of the user could create a pipe there, and
// opening a pipe could block forever.
func OpenPlain(open func(name string, flag int, perm fs.FileMode) (*os.File, error), name string) (*os.File, fs.FileInfo, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("agentconn: not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// ReadPlain returns the content of one of the agent's own files, or nil if it
// cannot be read, is not a regular file or has more than most bytes.
func ReadPlain(path string, most int64) []byte {
	f, st, err := OpenPlain(os.OpenFile, path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || st.Size() > most {
		return nil
	}
	return text
}

// folderEnd is appended to the path of a folder that is opened. If the path is
// that of a pipe, opening it then fails at once. Opening the pipe itself could
// block forever.
const folderEnd = string(filepath.Separator) + "."

// OpenFolder opens one of the agent's own folders. It fails if the path is not
// that of a folder: any program of the user could create a pipe there.
func OpenFolder(path string) (*os.Root, error) { return os.OpenRoot(path + folderEnd) }

// ListFolder opens one of the agent's own folders as [OpenFolder] does. It also
// returns the first names in the folder, at most max of them, in no order.
func ListFolder(path string, max int) (root *os.Root, names []string, err error) {
	root, err = OpenFolder(path)
	if err != nil {
		return nil, nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	defer dir.Close()
	names, _ = dir.Readdirnames(max) // what can be read
	return root, names, nil
}

// ReadFolder returns the sorted names in a folder below root. It returns none
// if the folder cannot be read. A folder below root that is a pipe does not
// block it.
func ReadFolder(root *os.Root, folder string) []string {
	f, err := root.Open(folder + folderEnd)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}
