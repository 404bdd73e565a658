package agentconn

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// OpenPlain opens a file of an agent's own for reading, by open, which is
// [os.OpenFile] or that of an [os.Root]. It fails if the file is not a regular
// one: every program of the user can put a pipe there, and opening that would
// wait for its other end without end.
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
