// Package testexec writes programs that tests start.
package testexec

import (
	"os"
	"path/filepath"
	"syscall"
)

// Write writes a program into a file, atomically, because other tests may start
// it. It creates the directory. It blocks forks while the file is open: a forked
// process would inherit the open file, and a file that is open for writing cannot
// be executed ("text file busy").
func Write[T string | []byte](path string, content T) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(content))
	if e := f.Chmod(0o755); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
