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

// ForAgent returns the sources of the options with which an agent of p starts,
// for [Resolve]. They are, strongest first: given, which are the session's
// options; prof, the session's profile, unless it is nil; the settings file of
// the project in given.Dir, if given.Trusted; and global, strongest first.
//
// The session's options were validated when the client gave them. ForAgent
// validates those of the other sources. An option that the agent does not take,
// or a value that it cannot have, is an error that names the source. known is
// the result of the last probe of the agent, or nil.
func ForAgent(p runnel.Provider, given runnel.Options, prof *Profile, known *runnel.Installation, global []Source) (Sources, error) {
	var others []Source
	if prof != nil {
		s := Of(*prof)
		s.agent = runnel.DisplayName(p)
		others = append(others, s)
	}
	if given.Trusted {
		s, ok, err := Project(given.Dir)
		if err != nil {
			return nil, err
		}
		if ok {
			others = append(others, s)
		}
	}
	for _, s := range global {
		if s.Agent == "" || s.Agent == p.Name() {
			others = append(others, s)
		}
	}
	sources := Sources{{From: FromSession, Options: given}}
	for _, s := range others {
		s, err := s.Checked(func(opt runnel.Options) (runnel.Options, error) {
			opt.AllowBypass = given.AllowBypass
			return runnel.CheckOptions(p, opt, known)
		})
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// ProjectFile is the settings file of a project, as a path in the project.
const ProjectFile = ".runnel/config.yaml"

// maxSettings bounds the settings file of a project, in bytes.
const maxSettings = 64 << 10

// Project reads the settings file of the project in dir, which must be trusted.
// It reports false if there is none. It follows no link that leads out of dir.
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

// readWithin reads a regular file in dir. It follows no link that leads out of
// dir.
func readWithin(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir + folderEnd)
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
