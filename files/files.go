// Package files shows people the files of a project: it lists directories,
// completes paths, and reads texts and images. For the choice of a project, it
// also lists directories outside of projects.
//
// It never leaves the project, follows no symbolic link, opens nothing but
// regular files and directories, and shows no file that usually holds secrets;
// see [Secret]. Every result is bounded.
package files

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/junegunn/fzf/src/algo"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Bounds of results and of the work for one request.
const (
	maxPath    = 4096     // bytes of a path
	maxQuery   = 200      // characters of a query
	maxFile    = 10 << 20 // bytes of a file that is read
	maxText    = 1 << 20  // bytes of text in one result
	maxLines   = 5000     // lines of text in one result
	maxListed  = 2000     // entries of a listed directory
	maxFolders = 200      // directories in one result of [Service.Folders]
	maxName    = 255      // bytes of the name of a directory that is created
)

// The errors of this package. Their messages are safe to show. Other errors are
// those of the context.
var (
	ErrNotFound = errors.New("there is no such file or folder in the project")
	ErrLink     = errors.New("this is a symbolic link or lies behind one, and links are not followed")
	ErrNoFile   = errors.New("this is no regular file")
	ErrNoFolder = errors.New("this is no folder")
	ErrSecret   = errors.New("files like this one usually hold secrets and are not shown")
	ErrLinked   = errors.New("the file has more than one name (hard links), one of which may be elsewhere")
	ErrTooLarge = errors.New("the file is larger than 10 MiB")
	ErrNoImage  = errors.New("the file is no PNG, JPEG, GIF or WebP image of at most 8000 × 8000 pixels")
	ErrBadPath  = errors.New(`the path must be relative to the project, with "/" between its elements, and without ".."`)
	ErrBadQuery = errors.New("the query has more than 200 characters")
	ErrNoHome   = errors.New(`the path must be absolute, or begin with "~/"`)
	ErrGone     = errors.New("there is no such folder, or it cannot be read")
	ErrExists   = errors.New("a file or folder with this name exists already; choose another name")
	ErrBadName  = errors.New(`the name must have 1 to 255 bytes; it must not contain "/", "\\" or control characters, begin with a dot or a space, end with a dot or a space, or be one that usually holds secrets`)
	ErrNotMade  = errors.New("the server cannot create a folder here; choose a folder in which the server's user may write")
)

// A Service completes paths from indexes that it keeps for some minutes. It is
// safe for concurrent use and starts no goroutines.
type Service struct {
	cfg    Config
	bounds bounds
	walks  chan struct{} // has an element for each running walk
	reads  chan struct{} // has an element for each file whose content is in memory

	mu    sync.Mutex
	kept  map[string]*index // by directory
	repos *repositories
}

// Config configures a Service.
type Config struct {
	// DataDir is a directory that [Service.Folders] does not show. It is
	// absolute and contains no symbolic links. Default: none
	DataDir string

	// Refuse returns why no session can start in a directory, an absolute
	// path, or "". It may be called concurrently. Default: refuses nothing
	Refuse func(dir string) string

	// Redact removes secrets from texts. Default: removes nothing
	Redact func(string) string
}

// Bounds of what happens at the same time.
const (
	maxWalks = 2 // directories that are walked or searched
	maxReads = 4 // files that are read
)

// useRanking selects fzf's way to rank paths. It has effect in the whole
// process, in which only this package uses fzf.
var useRanking = sync.OnceFunc(func() { algo.Init("path") })

// New returns a Service.
func New(cfg Config) *Service {
	useRanking()
	if cfg.Redact == nil {
		cfg.Redact = func(s string) string { return s }
	}
	if cfg.Refuse == nil {
		cfg.Refuse = func(string) string { return "" }
	}
	return &Service{cfg: cfg, bounds: defaultBounds(), walks: make(chan struct{}, maxWalks), reads: make(chan struct{}, maxReads), kept: make(map[string]*index), repos: new(repositories)}
}

// A Project is a directory whose files a [Service] shows.
type Project struct {
	service *Service
	dir     string
}

// Project returns the project in dir, which must be an absolute path without
// symbolic links. The caller checks that clients may see it.
func (s *Service) Project(dir string) Project { return Project{s, dir} }

// open opens the project's directory. If an element of its path has become a
// symbolic link, open fails.
func (p Project) open() (*os.Root, error) {
	root, err := nofollow.RootInPlace(p.dir)
	switch {
	case errors.Is(err, nofollow.ErrLink):
		return nil, ErrLink
	case err != nil:
		return nil, ErrNotFound
	}
	return root, nil
}

// local returns path in the form that package os uses, or an error if it is not
// a path within a project or if no one may see what it names.
func local(path string) (string, error) {
	if path == "" || path == "." {
		return ".", nil
	}
	if len(path) > maxPath || strings.Contains(path, "..") && hasParent(path) || !shown(path) {
		return "", ErrBadPath
	}
	rel, err := filepath.Localize(strings.TrimSuffix(path, "/"))
	if err != nil || runtime.GOOS == "windows" && strings.ContainsAny(rel, ":~") { // "~" begins the number in a short name of a longer one
		return "", ErrBadPath
	}
	if Secret(path) {
		return "", ErrSecret
	}
	return rel, nil
}

func hasParent(path string) bool {
	for e := range strings.SplitSeq(path, "/") {
		if e == ".." {
			return true
		}
	}
	return false
}

// shown reports whether a name can be shown and typed: it is UTF-8 without
// control characters.
func shown(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// errorOf converts an error of package nofollow.
func errorOf(err, irregular error) error {
	switch {
	case errors.Is(err, nofollow.ErrLink):
		return ErrLink
	case errors.Is(err, nofollow.ErrNotRegular):
		return irregular
	}
	return ErrNotFound
}
