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
)

// Bounds of Find.
const (
	maxEntries = 200_000 // files and folders below the folder; the rest is not looked at
	maxFiles   = 500     // configurations; more are a finding
	maxPointer = 8 << 10 // bytes of a .git file or a commondir
)

// A finder collects the findings of one folder.
type finder struct {
	ctx   context.Context
	env   []string        // of the agent
	root  string          // folder that is judged
	git   string          // path of the program, once it is needed
	dirs  map[string]bool // walked
	files map[string]bool // configurations that were read
	left  int             // entries that may still be looked at
	outer string          // outermost repository above root, "" if there is none
	later []string        // what to walk after the folder itself: git directories, and what links lead to
	last  []string        // folders of objects, to walk after everything else
	found []Finding
	known map[Finding]bool // that are in found
	err   error
}

func newFinder(ctx context.Context, env []string, left int) *finder {
	return &finder{ctx: ctx, env: env, dirs: map[string]bool{}, files: map[string]bool{}, known: map[Finding]bool{}, left: left}
}

// stopped reports whether nothing more is to be looked at.
func (f *finder) stopped() bool { return f.err != nil || f.ctx.Err() != nil }

// above looks for repositories that hold dir. A repository in the user's home
// directory or above is the user's own.
func (f *finder) above(dir string) {
	home, _ := os.UserHomeDir() // without it, every folder above counts
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
		if _, err := os.Lstat(own); (err == nil || bare) && within(f.root, dir) {
			f.outer = dir // the last is the outermost
		}
	}
}

// pointer looks at a ".git", which is a git directory, a link to one or a file
// that names one. Submodules may have theirs in it.
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

// readPath returns the path in a file of git's, without its prefix; "" if the
// file has none. A relative path is relative to the folder of the file.
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
	to, _, _ = strings.Cut(strings.TrimRight(to, "\r\n"), "\x00") // where git ends it
	if !ok || to == "" {
		return ""
	}
	return beside(file, to)
}

// beside returns the path that a file means by to. As the system has it, ".."
// is the folder above the one to which a link leads: so all links are followed
// before the path is cleaned, but for the last name.
func beside(file, to string) string {
	if !filepath.IsAbs(to) {
		to = filepath.Dir(file) + string(filepath.Separator) + to
	}
	dir, name := filepath.Split(to) // cleans nothing
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(dir, name)
}

// gitDir looks at the configurations of a git directory.
func (f *finder) gitDir(dir string) {
	if f.stopped() {
		return
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	f.config(filepath.Join(dir, "config"), dir)
	f.config(filepath.Join(dir, "config.worktree"), dir)
	if common := f.readPath(filepath.Join(dir, "commondir"), ""); common != "" {
		f.config(filepath.Join(common, "config"), common)
		if isGitDir(common) {
			f.later = append(f.later, common)
		}
	}
}

// walkAll walks a list of folders to its end. A walk may add to it.
func (f *finder) walkAll(dirs *[]string) {
	for len(*dirs) > 0 && !f.stopped() {
		next := (*dirs)[0]
		*dirs = (*dirs)[1:]
		f.walk(next)
	}
}

// walk looks for git directories in root and below it, nearest first. Of links,
// it follows a ".git", and what link does.
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
				f.last = append(f.last, path) // many files, and as a rule no repository
			default:
				queue = append(queue, path)
			}
		}
	}
}

// link looks at a link that leads to another part of the repository above root.
// Whoever made the repository chose what is there, as with root. What lies
// elsewhere was chosen by others.
func (f *finder) link(path string) {
	if f.outer == "" {
		return
	}
	to, err := filepath.EvalSymlinks(path)
	if err != nil || !within(to, f.outer) || within(to, f.root) {
		return
	}
	if st, err := os.Stat(to); err != nil || !st.IsDir() {
		return
	}
	f.above(to)
	f.later = append(f.later, to)
}

// within reports whether path is root or lies in it. Both are free of links.
func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// inGitDir reports whether dir, a folder in root, is in a git directory, and
// not in a folder of the work tree that only looks like one.
func inGitDir(root, dir string) bool {
	rel, err := filepath.Rel(filepath.Dir(root), dir)
	return err == nil && slices.Contains(strings.Split(filepath.ToSlash(rel), "/"), ".git")
}

// list returns the entries of a folder, as many as may still be looked at, and
// whether these are all. A folder that cannot be entered has none; one that can
// be entered but not listed is a finding, since git works in it.
func (f *finder) list(dir string) (entries []fs.DirEntry, all bool) {
	d, err := os.Open(dir)
	if err != nil {
		if _, inside := os.Lstat(dir + string(filepath.Separator) + "."); inside == nil {
			f.add(Finding{File: dir, Problem: reason(err)})
		}
		return nil, false
	}
	defer d.Close()
	entries, err = d.ReadDir(f.left)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ENOTDIR) { // a file holds no repository
		f.add(Finding{File: dir, Problem: reason(err)})
	}
	all = len(entries) < f.left && (err == nil || errors.Is(err, io.EOF))
	f.left -= len(entries) + 1
	return entries, all
}

// objects matches a folder of "objects" in which git stores objects. A
// repository may have been put there all the same.
var objects = regexp.MustCompile(`^([0-9a-f]{2}|pack|info)$`)

// looksLikeGitDir reports whether git could take a folder with these entries
// for a git directory. Some file systems ignore case.
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

// isGitDir is looksLikeGitDir for a folder that is not walked.
func isGitDir(dir string) bool {
	exists := func(name string) bool { // HEAD may be a link that leads nowhere yet
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return exists("HEAD") && (exists("objects") && exists("refs") || exists("commondir"))
}

// add adds a finding, once.
func (f *finder) add(found Finding) {
	if !f.known[found] {
		f.known[found] = true
		f.found = append(f.found, found)
	}
}
