package changes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/gitconfig"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/text"
)

// A repository is the repository that contains a folder.
type repository struct {
	folder Folder
	git    string // the program
	root   string // folder of the work tree
	prefix string // path of the folder in root, with slashes; "" if it is root
	dir    string // git directory of the work tree
	common string // git directory of the repository, which differs for a linked work tree
	known  *state // of a closed folder since the last command that reads; nil if it must be inspected

	settings []setting // since the last command that changes something; nil if they must be read
}

const maxPointer = 8 << 10 // bytes of a .git file

// findRepository finds the repository of a folder. It returns nil if there is
// none, and a problem if the repository cannot be used.
func findRepository(f Folder) (r *repository, problem string) {
	for root := f.Dir; ; root = filepath.Dir(root) {
		path := filepath.Join(root, ".git")
		st, err := os.Lstat(path)
		switch {
		case err == nil && st.Mode()&fs.ModeSymlink != 0 && !f.Trusted:
			return nil, path + " is a link. Runnel follows it in trusted folders only."
		case err != nil || !st.Mode().IsRegular() && !isGitDir(path): // git searches above, too
			if filepath.Dir(root) == root {
				return nil, ""
			}
			continue
		}
		r = &repository{folder: f, root: root, dir: path, common: path}
		if rel, err := filepath.Rel(root, f.Dir); err == nil && rel != "." {
			r.prefix = filepath.ToSlash(rel)
		}
		if st.Mode().IsRegular() {
			r.dir, problem = follow(f, path)
			r.common = r.dir
		}
		if problem == "" {
			problem = r.complete()
		}
		return r, problem
	}
}

// follow returns the git directory to which a .git file points. The directory of
// an untrusted folder must point back, or belong to the repository above.
func follow(f Folder, file string) (dir, problem string) {
	to, err := readPointer(file, "gitdir: ")
	if err != nil {
		return "", file + " cannot be read: " + err.Error() + "."
	}
	if f.Trusted {
		return to, ""
	}
	if f.Closed {
		to = canonical(to) // a link on the way could be replaced
	}
	if back, err := readPointer(filepath.Join(to, "gitdir"), ""); err == nil && same(back, file) {
		return to, ""
	}
	for up := filepath.Dir(filepath.Dir(file)); ; up = filepath.Dir(up) {
		// A link would lead to repositories that do not belong to this one.
		modules := filepath.Join(up, ".git", "modules")
		if canonical(modules) == filepath.Join(canonical(up), ".git", "modules") && subpath.Within(canonical(to), canonical(modules)) {
			return to, ""
		}
		if up == filepath.Dir(up) {
			return "", file + " leads to a repository elsewhere: " + text.OneLine(to, 300) + ". Runnel uses it in trusted folders only."
		}
	}
}

func canonical(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

func same(a, b string) bool { return canonical(a) == canonical(b) }

// readPointer returns the path in one of git's pointer files.
func readPointer(file, prefix string) (string, error) {
	b, err := nofollow.ReadSmall(file, maxPointer)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	if !ok || to == "" || strings.ContainsRune(to, 0) {
		return "", errors.New("it has another form than git writes")
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return filepath.Clean(to), nil
}

// complete finds the common git directory and checks the parts that git would
// write to. In an untrusted folder none of them may be a link.
func (r *repository) complete() (problem string) {
	if common, err := readPointer(filepath.Join(r.dir, "commondir"), ""); err == nil {
		if r.folder.Closed && !r.folder.Trusted {
			common = canonical(common)
		}
		r.common = common
		if !r.folder.Trusted && !isWorktreeOf(r.dir, common) {
			return filepath.Join(r.dir, "commondir") + " leads to a repository elsewhere: " + text.OneLine(common, 300) + ". Runnel uses it in trusted folders only."
		}
	}
	if !isGitDir(r.dir) || !isGitDir(r.common) {
		return r.dir + " is no git directory."
	}
	if r.folder.Trusted {
		return ""
	}
	for _, path := range []string{filepath.Join(r.dir, "HEAD"), filepath.Join(r.dir, "index"), filepath.Join(r.common, "packed-refs"),
		filepath.Join(r.common, "objects"), filepath.Join(r.common, "refs"), filepath.Join(r.common, "refs", "heads"), filepath.Join(r.common, "info"), filepath.Join(r.dir, "reftable")} {
		if st, err := os.Lstat(path); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
			return path + " is a link. Runnel follows it in trusted folders only."
		}
	}
	return ""
}

// checkObjects fails if a link is among the folders of objects, because git would
// then write elsewhere.
func (r *repository) checkObjects() error {
	if r.folder.Trusted {
		return nil
	}
	dir := filepath.Join(r.common, "objects")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return failed(dir + " cannot be read.")
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			return failed(filepath.Join(dir, e.Name()) + " is a link. Runnel follows it in trusted folders only.")
		}
	}
	return nil
}

// isWorktreeOf reports whether dir is the git directory of a linked work tree of
// the repository common, in the place where git creates it.
func isWorktreeOf(dir, common string) bool {
	worktrees := filepath.Dir(canonical(dir))
	return filepath.Base(worktrees) == "worktrees" && same(filepath.Dir(worktrees), common)
}

// isGitDir reports whether git accepts a directory as a git directory.
func isGitDir(dir string) bool {
	exists := func(name string) bool { // HEAD may be a dangling link
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return exists("HEAD") && (exists("commondir") || exists("objects") && exists("refs"))
}

// path returns the path of a file of the folder in the repository.
func (r *repository) path(local string) string {
	if r.prefix == "" {
		return local
	}
	return r.prefix + "/" + local
}

// local returns the path in the folder of a path in the repository, and false
// if the file is elsewhere.
func (r *repository) local(path string) (string, bool) {
	if r.prefix == "" {
		return path, true
	}
	return strings.CutPrefix(path, r.prefix+"/")
}

// inGitDir reports whether a path leads into a git directory.
func inGitDir(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// operations are the unfinished operations, by a file in the git directory that
// exists meanwhile.
var operations = [][2]string{
	{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"MERGE_HEAD", "merge"}, {"CHERRY_PICK_HEAD", "cherry-pick"},
	{"REVERT_HEAD", "revert"},
}

// operation returns the unfinished operation of the work tree, or "".
func (r *repository) operation() string {
	for _, o := range operations {
		if _, err := os.Lstat(filepath.Join(r.dir, o[0])); err == nil {
			return o[1]
		}
	}
	return ""
}

// commitHooks are the hooks that a commit runs.
var commitHooks = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction", "post-index-change"}

// hasHooks reports whether the repository has hooks that a commit would run.
func (r *repository) hasHooks() bool {
	return slices.ContainsFunc(commitHooks, func(name string) bool {
		st, err := os.Lstat(filepath.Join(r.common, "hooks", name))
		return err == nil && (st.Mode()&0o111 != 0 || st.Mode()&fs.ModeSymlink != 0)
	})
}

// A checked is the result of a check of a repository.
type checked struct {
	at      time.Time
	configs string // of the configurations that were checked
	problem string
}

const (
	checkAge  = 10 * time.Second // how long the result of a check is used
	maxChecks = 100              // results that are kept
)

// check returns what git would run in an untrusted folder, or "". Each command
// also uses a private configuration, so a folder that changes after its check
// makes git run nothing.
func (g *Git) check(ctx context.Context, r *repository) (problem string, err error) {
	configs := fingerprint(filepath.Join(r.common, "config"), filepath.Join(r.dir, "config.worktree"))
	g.mu.Lock()
	known, ok := g.checks[r.folder.Dir]
	g.mu.Unlock()
	if g.trustCheck || ok && known.configs == configs && time.Since(known.at) < checkAge {
		return known.problem, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	found, err := gitconfig.Find(ctx, g.environ(r.folder), r.folder.Dir)
	switch {
	case ctx.Err() != nil:
		return "", timedOut(ctx, "the check of the git configuration")
	case err != nil:
		problem = "Runnel cannot determine what git would run in this folder: " + err.Error() + "."
	case len(found) > 0:
		problem = "The git configuration, a hook or an unfinished operation makes git run programs or change files elsewhere: " +
			gitconfig.Describe(found, r.folder.Dir) + ". Look at each, and remove it or trust the folder (trusted-folders in the server's configuration)."
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.checks) >= maxChecks {
		clear(g.checks)
	}
	g.checks[r.folder.Dir] = checked{time.Now(), configs, problem}
	return problem, nil
}

// fingerprint changes if one of the files does.
func fingerprint(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		if st, err := os.Lstat(f); err == nil {
			b.WriteString(strconv.FormatInt(st.Size(), 36) + " " + st.ModTime().Format(time.RFC3339Nano) + " " + st.Mode().String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
