package agentconn

import (
	"errors"
	"io/fs"
	"os"
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
