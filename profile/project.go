package profile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/runnel-dev/runnel"
)

// ProjectFile is the settings file of a project, in its folder.
const ProjectFile = ".runnel/config.yaml"

// maxSettings bounds the settings file of a project, in bytes.
const maxSettings = 64 << 10

// Project reads the settings file of the project in dir, which must be trusted.
// It reports false if there is none. A link that leads out of dir is refused.
// Errors name the file and the line.
func Project(dir string) (s Source, ok bool, err error) {
	path := filepath.Join(dir, filepath.FromSlash(ProjectFile))
	data, err := readWithin(dir, ProjectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		why := err.Error()
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			why = e.Err.Error()
		}
		return s, false, runnel.Fail(runnel.InvalidRequest, path+": cannot be read: "+why, err)
	}
	s, err = parseProject(path, data)
	return s, err == nil, err
}

var (
	errNotRegular = errors.New("is not a regular file")
	errTooLarge   = errors.New("is larger than 64 KiB")
)

// readWithin reads a file in dir, which no link leads out of.
func readWithin(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block us
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, errNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(data) > maxSettings {
		err = errTooLarge
	}
	return data, err
}
