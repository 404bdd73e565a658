package files

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/junegunn/fzf/src/util"

	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// Folders are directories in which a session could work.
type Folders struct {
	Home         string   `json:"home,omitempty" doc:"Home directory of the server's user."`
	Path         string   `json:"path" doc:"Absolute path of the directory that was listed."`
	Refused      string   `json:"refused,omitempty" doc:"Why no session can start in path. Absent if one can."`
	Folders      []Folder `json:"folders" doc:"Directories in path that match what follows it, at most 200. Hidden directories match only if it begins with a dot."`
	More         bool     `json:"more,omitempty" doc:"Whether more directories match."`
	Suggested    string   `json:"suggested,omitempty" doc:"A directory for a first session: the server's working directory if a session could start there, else the git repository that was used last. Only if the request names no path."`
	Repositories []Folder `json:"repositories,omitempty" doc:"Git repositories near the home directory, the ones that were used last first. Only if the request names no path."`
}

// A Folder is a directory.
type Folder struct {
	Name string `json:"name" doc:"Name of the directory in the one above."`
	Path string `json:"path" doc:"Absolute path."`
	Git  bool   `json:"git,omitempty" doc:"Whether the directory is the root of a git repository."`

	Refused string `json:"refused,omitempty" doc:"Why no session can start in the directory. Absent if one can."`
}

// Folders lists directories, for a person who chooses one. path is absolute or
// begins with "~/". If path ends with a separator, Folders lists this
// directory; otherwise it lists the directory above, and returns what matches
// the last element, the best match first. An empty path lists the home
// directory and git repositories near it.
//
// Folders returns no links, nothing of Config.DataDir, and no directories that
// [Secret] reports.
func (s *Service) Folders(ctx context.Context, path string) (Folders, error) {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		home = ""
	}
	dir, name, err := splitFolder(path, home)
	if err != nil {
		return Folders{}, err
	}
	out := Folders{Home: home, Path: dir}
	err = s.walk(ctx, func() error {
		out.Folders, out.More, err = s.folders(ctx, dir, name)
		out.Refused = s.cfg.Refuse(dir)
		return err
	})
	if err != nil {
		return Folders{}, err
	}
	if path == "" {
		err = s.walk(ctx, func() error { out.Repositories = s.repositories(ctx, home); return ctx.Err() })
	}
	return out, err
}

// Create creates the directory name in parent, for a person who needs a new
// directory for a session. parent is absolute or begins with "~/", and exists.
// Create follows no link that replaces an element of parent meanwhile. It calls
// record with the path before it creates the directory; if record fails, Create
// creates nothing and returns its error.
func (s *Service) Create(ctx context.Context, parent, name string, record func(path string) error) (out Folder, err error) {
	if parent == "" {
		return Folder{}, ErrNoHome
	}
	if !creatable(name) {
		return Folder{}, ErrBadName
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		home = ""
	}
	dir, _, err := splitFolder(parent+string(filepath.Separator), home)
	if err != nil {
		return Folder{}, err
	}
	err = s.walk(ctx, func() error {
		root, real, err := s.openFolder(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		if s.own(filepath.Join(real, name)) {
			return ErrGone
		}
		if _, err := root.Lstat(name); err == nil {
			return ErrExists
		}
		path := filepath.Join(dir, name)
		if err := record(path); err != nil {
			return err
		}
		switch err := root.Mkdir(name, 0o755); {
		case errors.Is(err, fs.ErrExist):
			return ErrExists
		case err != nil:
			return ErrNotMade
		}
		out = s.folder(path, false)
		return nil
	})
	return out, err
}

// creatable reports whether a person may give a new directory this name: every
// system can store it, Folders shows it, and it looks like no other name.
func creatable(name string) bool {
	if name == "" || len(name) > maxName || !shown(name) || strings.ContainsAny(name, `/\`) || secretName(folded(name)) {
		return false
	}
	if strings.HasPrefix(name, ".") || strings.TrimRight(strings.TrimSpace(name), ".") != name {
		return false
	}
	local, err := filepath.Localize(name)
	return err == nil && local == name && !strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) })
}

// splitFolder returns the directory to list and the beginning of a name in it.
func splitFolder(path, home string) (dir, name string, err error) {
	if len(path) > maxPath || utf8.RuneCountInString(path) > maxPath || !shown(path) {
		return "", "", ErrNoHome
	}
	sep := string(filepath.Separator)
	if path == "" || path == "~" {
		path = "~" + sep
	}
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && os.IsPathSeparator(rest[0]) {
		path = home + rest
	}
	if !filepath.IsAbs(path) {
		return "", "", ErrNoHome
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return filepath.Clean(path), "", nil
	}
	return filepath.Clean(filepath.Dir(path)), filepath.Base(path), nil
}

// folders returns the directories in dir that match name.
func (s *Service) folders(ctx context.Context, dir, name string) (out []Folder, more bool, err error) {
	if utf8.RuneCountInString(name) > maxQuery {
		return nil, false, ErrGone
	}
	root, real, err := s.openFolder(dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	f, err := root.Open(".")
	if err != nil {
		return nil, false, ErrGone
	}
	defer f.Close()
	list, _ := f.ReadDir(maxFolder) // an error means that the directory has fewer
	var found []entry
	for _, d := range list {
		if d.IsDir() && shown(d.Name()) && !secretName(folded(d.Name())) {
			found = append(found, entry{path: util.ToChars([]byte(d.Name())), hidden: strings.HasPrefix(d.Name(), ".")})
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.path.ToString(), b.path.ToString()) })
	matching, err := newQuery(name).rank(ctx, found)
	if err != nil {
		return nil, false, err
	}
	out = []Folder{}
	for _, m := range matching[:min(len(matching), maxFolders)] {
		n := m.entry.path.ToString()
		if s.own(filepath.Join(real, n)) {
			continue
		}
		_, err := root.Lstat(filepath.Join(n, ".git"))
		out = append(out, s.folder(filepath.Join(dir, n), err == nil))
	}
	return out, len(matching) > maxFolders, nil
}

// folder describes a directory.
func (s *Service) folder(path string, git bool) Folder {
	return Folder{Name: filepath.Base(path), Path: path, Git: git, Refused: s.cfg.Refuse(path)}
}

// openFolder opens a directory that may be shown. real is its path without
// symbolic links.
func (s *Service) openFolder(dir string) (root *os.Root, real string, err error) {
	real, err = filepath.EvalSymlinks(dir)
	if err != nil || s.own(real) || Secret(filepath.ToSlash(real)) {
		return nil, "", ErrGone
	}
	if root, err = s.Project(real).open(); err != nil {
		return nil, "", ErrGone
	}
	return root, real, nil
}

// own reports whether dir, a path without symbolic links, is the server's data
// directory or lies in it. It also compares the directories themselves, because
// a file system may have several names for one directory.
func (s *Service) own(dir string) bool {
	if s.cfg.DataDir == "" {
		return false
	}
	if subpath.Within(dir, s.cfg.DataDir) {
		return true
	}
	data, err := os.Stat(s.cfg.DataDir)
	for ; err == nil; dir = filepath.Dir(dir) {
		if is, err := os.Stat(dir); err == nil && os.SameFile(data, is) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// Bounds of the search for git repositories.
const (
	maxRepositories = 50
	maxRepoFolders  = 5000 // directories that are read
	maxRepoDepth    = 4    // below the home directory
	freshRepos      = time.Minute
)

// repositories are the git repositories that were found near the home
// directory.
type repositories struct {
	mu    sync.Mutex
	found []Folder
	at    time.Time
}

// repositories returns the git repositories near home, those that were used
// last first. It searches for a limited time.
func (s *Service) repositories(ctx context.Context, home string) []Folder {
	r := s.repos
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < freshRepos {
		return slices.Clone(r.found)
	}
	root, err := nofollow.Root(home)
	if err != nil {
		return nil
	}
	defer root.Close()
	real, _ := filepath.EvalSymlinks(home)
	found := s.searchRepositories(ctx, root, real, time.Now().Add(s.bounds.first))
	if ctx.Err() != nil { // the search was cut short
		return nil
	}
	r.found, r.at = nil, time.Now()
	for _, repo := range found[:min(len(found), maxRepositories)] {
		r.found = append(r.found, s.folder(filepath.Join(home, repo.path), true))
	}
	return slices.Clone(r.found)
}

type repository struct {
	path string // from the home directory
	used time.Time
}

func (s *Service) searchRepositories(ctx context.Context, root *os.Root, home string, deadline time.Time) (found []repository) {
	queue := []string{"."}
	for n := 0; len(queue) > 0 && n < maxRepoFolders && time.Now().Before(deadline) && ctx.Err() == nil; n++ {
		dir := queue[0]
		queue = queue[1:]
		if git, err := root.Lstat(filepath.Join(dir, ".git")); err == nil && dir != "." {
			found = append(found, repository{dir, lastUse(root, dir, git)})
			continue
		}
		if strings.Count(dir, string(filepath.Separator))+1 >= maxRepoDepth {
			continue
		}
		f, err := root.Open(dir + string(filepath.Separator) + ".")
		if err != nil {
			continue
		}
		list, _ := f.ReadDir(maxListed)
		_ = f.Close()
		for _, d := range list {
			name := d.Name()
			if d.IsDir() && shown(name) && !strings.HasPrefix(name, ".") && !skipped(name) && !secretName(folded(name)) && !s.own(filepath.Join(home, dir, name)) {
				queue = append(queue, filepath.Join(dir, name))
			}
		}
	}
	slices.SortFunc(found, func(a, b repository) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	return found
}

// lastUse returns when git last changed the repository's index, or else when
// git was last used otherwise.
func lastUse(root *os.Root, dir string, git fs.FileInfo) time.Time {
	if index, err := root.Lstat(filepath.Join(dir, ".git", "index")); err == nil {
		return index.ModTime()
	}
	return git.ModTime()
}
