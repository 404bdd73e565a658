package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a new file that only this user can read, and creates missing
// folders above it. It links the complete file to path, so no process can read
// half of it. If the file exists, or another process creates it first, Create
// leaves that file unchanged and returns nil.
func Create(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
