package gitconfig

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// Bounds of Find.
const (
	maxEntries = 200_000 // entries per walk of Find; further ones are skipped
	maxFiles   = 500     // configurations; more are an error
	maxPointer = 8 << 10 // bytes of a .git file or a commondir
)

// A finder collects the findings of one folder.
type finder struct {
	ctx      context.Context
	env      []string        // environment of the agent
	root     string          // folder that is judged
	unpinned bool            // the settings of the agent's git are not pinned
	git      string          // path of the program, once it is needed
	dirs     map[string]bool // folders already walked
	files    map[string]bool // configurations already read
	left     int             // entries that may still be checked
	outer    string          // outermost repository above root, "" if there is none
	later    []string        // folders to walk after root: git directories, and targets of links
	last     []string        // object directories, to walk after everything else
	found    []Finding
	known    map[Finding]bool // the elements of found
	err      error
}

func newFinder(ctx context.Context, env []string, left int) *finder {
	return &finder{ctx: ctx, env: env, dirs: map[string]bool{}, files: map[string]bool{}, known: map[Finding]bool{}, left: left}
}

// stopped reports whether the search must stop.
func (f *finder) stopped() bool { return f.err != nil || f.ctx.Err() != nil }

// above checks the repositories that contain dir. It skips the user's home
// directory and the folders above it, since repositories there are the user's
// own.
func (f *finder) above(dir string) {
	home, _ := os.UserHomeDir() // without a home directory, every folder above is checked
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	for dir != home && !f.stopped() {
		up := filepath.Dir(dir)
		if up == dir || up == home {
			return
		}
		dir = up
		own := filepath.Join(dir, ".git")
		f.pointer(own)
		bare := isGitDir(dir)
		if bare {
			f.gitDir(dir)
		}
		if _, err := os.Lstat(own); (err == nil || bare) && subpath.Within(f.root, dir) {
			f.outer = dir // the last is the outermost
		}
	}
}

// pointer checks a ".git": a git directory, a link to one, or a file that names
// one. The directory may contain those of submodules.
func (f *finder) pointer(path string) {
	st, err := os.Stat(path)
	switch {
	case err != nil: // there is none
	case st.IsDir():
		f.gitDir(path)
		f.later = append(f.later, path)
	case st.Mode().IsRegular():
		if to := f.readPath(path, "gitdir: "); to != "" && isGitDir(to) {
			f.gitDir(to)
			f.later = append(f.later, to)
		}
	default:
		f.add(Finding{File: path, Problem: "neither a file nor a folder"})
	}
}

// readPath returns the path in one of git's pointer files, without the prefix,
// or "". A relative path is relative to the folder of the file.
func (f *finder) readPath(file, prefix string) string {
	b, err := readRegular(file, maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		f.add(Finding{File: file, Problem: reason(err)})
		return ""
	}
	to, ok := strings.CutPrefix(string(b), prefix)
	to, _, _ = strings.Cut(strings.TrimRight(to, "\r\n"), "\x00") // git stops at a NUL byte
	if !ok || to == "" {
		return ""
	}
	return resolveRelative(file, to)
}

// resolveRelative resolves the path to relative to file, as the system does:
// ".." after a link is the parent of the link's target. It therefore follows
// all links except the last name before it cleans the path.
func resolveRelative(file, to string) string {
	if !filepath.IsAbs(to) {
		to = filepath.Dir(file) + string(filepath.Separator) + to
	}
	dir, name := filepath.Split(to) // Split does not clean the path
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(dir, name)
}

// gitDir checks the configurations, the hooks and the unfinished operations of
// a git directory.
func (f *finder) gitDir(dir string) {
	if f.stopped() {
		return
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	f.config(filepath.Join(dir, "config"), dir)
	f.config(filepath.Join(dir, "config.worktree"), dir)
	f.hooks(dir)
	f.unfinished(dir)
	if common := f.readPath(filepath.Join(dir, "commondir"), ""); common != "" {
		f.config(filepath.Join(common, "config"), common)
		f.hooks(common)
		if isGitDir(common) {
			f.later = append(f.later, common)
		}
	}
}

// receiving are the hooks that git runs in a repository to which something is
// pushed. If the repository is on this machine, git starts the receiving side
// itself, and removes the pins from its environment.
var receiving = []string{"pre-receive", "update", "proc-receive", "reference-transaction", "push-to-checkout", "post-receive", "post-update", "pre-auto-gc"}

const (
	hookProblem    = "git runs it when somebody pushes to this repository"
	anyHookProblem = "git runs it because the session's first folder is trusted"
)

// hooks reports the receiving hooks of a git directory, or, if the settings are
// not pinned, all hooks. It skips files that nobody may execute, since git
// skips them too.
func (f *finder) hooks(dir string) {
	dir = filepath.Join(dir, "hooks")
	names, problem := receiving, hookProblem
	if f.unpinned {
		names, problem = nil, anyHookProblem
		entries, _ := f.list(dir)
		for _, e := range entries {
			if !e.IsDir() && !strings.HasSuffix(e.Name(), ".sample") {
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err == nil && (!st.Mode().IsRegular() || st.Mode()&0o111 != 0) {
			f.add(Finding{File: path, Problem: problem})
		}
	}
}

// walkAll walks all folders in a list, including folders that are added
// meanwhile.
func (f *finder) walkAll(dirs *[]string) {
	for len(*dirs) > 0 && !f.stopped() {
		next := (*dirs)[0]
		*dirs = (*dirs)[1:]
		f.walk(next)
	}
}

// walk searches for git directories in root and below it, nearest first. It
// follows a link only if the link is a ".git" or if link accepts it.
func (f *finder) walk(root string) {
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	for queue := []string{root}; len(queue) > 0 && f.left > 0 && !f.stopped(); queue = queue[1:] {
		dir := queue[0]
		if f.dirs[dir] {
			continue
		}
		f.dirs[dir] = true
		f.pointer(filepath.Join(dir, ".git"))
		entries, all := f.list(dir)
		if looksLikeGitDir(entries) || !all && isGitDir(dir) {
			f.gitDir(dir)
		}
		inObjects := filepath.Base(dir) == "objects" && inGitDir(root, dir)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Type()&fs.ModeSymlink != 0:
				f.link(path)
			case !e.IsDir():
			case inObjects && objects.MatchString(e.Name()):
				f.last = append(f.last, path) // many files and usually no repository
			default:
				queue = append(queue, path)
			}
		}
	}
}

// link queues the target of a link if it is in another part of the repository
// above root. That part has the same author as root, so it is checked too.
// Targets elsewhere have other authors and are skipped.
func (f *finder) link(path string) {
	if f.outer == "" {
		return
	}
	to, err := filepath.EvalSymlinks(path)
	if err != nil || !subpath.Within(to, f.outer) || subpath.Within(to, f.root) {
		return
	}
	if st, err := os.Stat(to); err != nil || !st.IsDir() {
		return
	}
	f.above(to)
	f.later = append(f.later, to)
}

// inGitDir reports whether dir, a folder below root, is inside a ".git" folder.
func inGitDir(root, dir string) bool {
	rel, err := filepath.Rel(filepath.Dir(root), dir)
	return err == nil && slices.Contains(strings.Split(filepath.ToSlash(rel), "/"), ".git")
}

// list returns the entries of a folder, up to the remaining bound, and whether
// these are all. A folder that cannot be entered has no entries. A folder that
// can be entered but not listed is a finding, because git works in it.
func (f *finder) list(dir string) (entries []fs.DirEntry, all bool) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		if _, inside := os.Lstat(dir + string(filepath.Separator) + "."); inside == nil {
			f.add(Finding{File: dir, Problem: reason(err)})
		}
		return nil, false
	}
	defer d.Close()
	entries, err = d.ReadDir(f.left)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ENOTDIR) { // a file contains no repository
		f.add(Finding{File: dir, Problem: reason(err)})
	}
	all = len(entries) < f.left && (err == nil || errors.Is(err, io.EOF))
	f.left -= len(entries) + 1
	return entries, all
}

// objects matches the object folders of git. They may still contain a hidden
// repository.
var objects = regexp.MustCompile(`^([0-9a-f]{2}|pack|info)$`)

// looksLikeGitDir reports whether git could accept a folder with these entries
// as a git directory. It ignores case, as some file systems do.
func looksLikeGitDir(entries []fs.DirEntry) bool {
	has := map[string]bool{}
	for _, e := range entries {
		switch name := strings.ToLower(e.Name()); name {
		case "head", "objects", "refs", "commondir":
			has[name] = true
		}
	}
	return has["head"] && (has["objects"] && has["refs"] || has["commondir"])
}

// isGitDir is looksLikeGitDir for a folder that is not being walked.
func isGitDir(dir string) bool {
	exists := func(name string) bool { // HEAD may be a dangling link
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return exists("HEAD") && (exists("objects") && exists("refs") || exists("commondir"))
}

// add adds a finding unless it is known.
func (f *finder) add(found Finding) {
	if !f.known[found] {
		f.known[found] = true
		f.found = append(f.found, found)
	}
}
