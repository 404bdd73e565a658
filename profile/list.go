package profile

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/text"
)

// ProjectDir is the folder of a project's own profiles, as a path in the
// project.
const ProjectDir = ".runnel/profiles"

// maxFiles bounds the number of profiles in a folder.
const maxFiles = 500

const suffix = ".md"

// Folders are the folders with profiles.
type Folders struct {
	Config  string // folder of the profiles for all projects. Default: none
	Project string // the project, which must be trusted; ProjectDir in it has its profiles. Default: none
}

// An Entry is a profile, or a file that should be a profile but is invalid.
type Entry struct {
	Profile
	Err error // what is wrong with the file; then only Name, Path and Project are set
}

// List returns the profiles of all folders, sorted by name. A project's profile
// replaces the one of the same name beside the configuration, even if the
// project's is invalid.
func List(f Folders) ([]Entry, error) {
	var out []Entry
	err := f.each(func(dir folder) error {
		names, err := dir.names()
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.ContainsFunc(out, func(e Entry) bool { return e.Name == name }) {
				out = append(out, dir.entry(name))
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// Find returns the profile with a name. It fails with PERSONA_NOT_FOUND if
// there is no such profile, or if its file is invalid.
func Find(f Folders, name string) (Profile, error) {
	shown := strconv.Quote(text.OneLine(name, maxName))
	if !IsName(name) {
		return Profile{}, notFound("persona: " + shown + " is not the name of a profile; it has a to z, 0 to 9, _ and -")
	}
	var found *Entry
	err := f.each(func(dir folder) error {
		if found == nil && dir.has(name) {
			e := dir.entry(name)
			found = &e
		}
		return nil
	})
	switch {
	case err != nil:
		return Profile{}, err
	case found == nil:
		return Profile{}, notFound("persona: there is no profile " + shown + "; GET /api/profiles and 'runnel profiles' list them")
	case found.Err != nil:
		return Profile{}, notFound("persona: the profile "+shown+" cannot be used: "+found.Err.Error(), found.Err)
	}
	return found.Profile, nil
}

func notFound(why string, cause ...error) error {
	return runnel.Fail(runnel.PersonaNotFound, why, cause...)
}

// each calls do with every folder that exists. The project's comes first.
func (f Folders) each(do func(folder) error) error {
	for _, dir := range []struct {
		root, below string
		project     bool
	}{{f.Project, ProjectDir, true}, {f.Config, "", false}} {
		if dir.root == "" {
			continue
		}
		root, err := openRoot(dir.root, dir.below)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return unreadable(dir.project, err)
		}
		err = do(folder{root, filepath.Join(dir.root, filepath.FromSlash(dir.below)), dir.project})
		_ = root.Close() // an error does not matter: the folder was only read
		if err != nil {
			return err
		}
	}
	return nil
}

// InProject reports whether the project in dir has a folder with its own
// profiles.
func InProject(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(ProjectDir)))
	return err == nil && info.IsDir()
}

func unreadable(project bool, err error) error {
	if project {
		return runnel.Fail(runnel.WorkingRootInaccessible, "the project's profiles in "+ProjectDir+" cannot be read: "+plain(err), err)
	}
	return runnel.Fail(runnel.Internal, "the profiles beside the configuration cannot be read: "+plain(err), err)
}

// folderEnd is appended to the path of a folder that is opened. If a pipe has
// that path, opening it then fails at once instead of blocking.
const folderEnd = string(filepath.Separator) + "."

// openRoot opens the folder below in dir. It follows no link that leads out of
// dir.
func openRoot(dir, below string) (*os.Root, error) {
	root, err := os.OpenRoot(dir + folderEnd)
	if err != nil || below == "" {
		return root, err
	}
	defer func() { _ = root.Close() }()
	return root.OpenRoot(filepath.FromSlash(below) + folderEnd)
}

// A folder is an open folder of profiles.
type folder struct {
	root    *os.Root
	path    string
	project bool
}

// names returns the names of the files that should be profiles, sorted and
// without .md. It returns at most maxFiles.
func (d folder) names() (names []string, err error) {
	dir, err := d.root.Open(".")
	if err != nil {
		return nil, unreadable(d.project, err)
	}
	defer func() { _ = dir.Close() }()
	for len(names) < maxFiles {
		some, err := dir.Readdirnames(100)
		for _, file := range some {
			if name, is := strings.CutSuffix(file, suffix); is && !strings.HasPrefix(name, ".") && len(names) < maxFiles {
				names = append(names, name)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadable(d.project, err)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d folder) has(name string) bool {
	_, err := d.root.Lstat(name + suffix)
	return !errors.Is(err, fs.ErrNotExist)
}

// entry reads the profile with a name. If that fails, the Entry has the error.
func (d folder) entry(name string) Entry {
	e := Entry{Profile: Profile{Name: name}}
	data, err := d.read(name)
	if err == nil {
		e.Profile, err = Parse(name, data)
	}
	if err != nil {
		e.Profile, e.Err = Profile{Name: text.OneLine(name, 4*maxName)}, err
	}
	e.Path, e.Project = filepath.Join(d.path, name+suffix), d.project
	return e
}

// read returns the content of a profile's file. Other users must not be able to
// change a file beside the configuration, because it decides what agents may do
// without asking.
func (d folder) read(name string) ([]byte, error) {
	file := text.OneLine(name, 4*maxName) + suffix
	bad := func(why string) ([]byte, error) { return nil, &FileError{File: file, Why: why} }
	if !IsName(name) {
		return bad("its name is not the name of a profile; name it with a to z, 0 to 9, _ and -, at most 64 of them, and begin with a letter or digit")
	}
	// A pipe would block the reader, and a link may lead elsewhere.
	info, err := d.root.Lstat(name + suffix)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return bad("is a link; put the file itself here")
	case err == nil && !info.Mode().IsRegular():
		return bad("is not a file")
	case err != nil:
		return bad("cannot be read: " + plain(err))
	}
	if !d.project {
		if err := private.CheckFile(filepath.Join(d.path, name+suffix), private.Read); err != nil {
			return bad(plain(err))
		}
	}
	f, err := d.root.OpenFile(name+suffix, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return bad("cannot be read: " + plain(err))
	}
	defer func() { _ = f.Close() }()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return bad("was replaced while it was read; try again")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return bad("cannot be read: " + plain(err))
	}
	if len(data) > MaxFile {
		return bad("has more than " + strconv.Itoa(MaxFile) + " bytes, which is the limit")
	}
	return data, nil
}

// plain returns the text of a file system error without the path.
func plain(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return text.OneLine(err.Error(), maxDescription)
}
