package changes

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Worktree is a linked worktree of a project's repository, which was made for
// one session.
type Worktree struct {
	Root   string `json:"root" doc:"Absolute path of the worktree."`
	Dir    string `json:"dir" doc:"Absolute path of the directory that the agent works in: the worktree, or the folder in it that corresponds to the project's directory."`
	Branch string `json:"branch" doc:"The branch that was made for the worktree."`
	Base   string `json:"base" doc:"Id of the commit at which the branch began."`
	From   string `json:"from,omitempty" doc:"The project's branch at that time. Absent if none was checked out."`
}

// PlanWorktree returns the worktree that [Git.AddWorktree] can make for the
// project, at the path root and with a new branch. It changes nothing. It fails
// with GIT_FAILED if the project can have no worktree.
func (g *Git) PlanWorktree(ctx context.Context, project Folder, root, branch string) (Worktree, error) {
	r, _, err := g.home(ctx, project)
	if err != nil {
		return Worktree{}, err
	}
	w := Worktree{Root: root, Dir: filepath.Join(root, filepath.FromSlash(r.prefix)), Branch: branch}
	if w.Base, err = g.head(ctx, r); err != nil {
		return w, err
	}
	if w.Base == "" {
		return w, failed("The repository in " + r.root + " has no commit yet, and a worktree begins at a commit. Make one, such as with git commit --allow-empty -m start.")
	}
	if r.prefix != "" {
		if kind, err := g.line(ctx, r, "cat-file", "-t", w.Base+":"+r.prefix); err != nil || kind != "tree" {
			return w, failed("The last commit does not have the folder "+r.prefix+" of the repository in "+r.root+", so a worktree would lack it. Commit it first.", err)
		}
	}
	w.From = r.branch()
	return w, nil
}

// home returns the repository of a project that may have worktrees, and its
// settings.
func (g *Git) home(ctx context.Context, project Folder) (*repository, []setting, error) {
	r, st, err := g.open(ctx, project)
	switch {
	case err != nil:
	case st.State == StateNone && isGitDir(project.Dir):
		err = failed("The project is a bare repository, which has no work tree that could be merged into. Choose a clone of it.")
	case st.State == StateNone:
		err = failed("The project is in no git repository, so it can have no worktree. Create a repository there (git init) and commit, or leave out worktree.")
	case st.State != StateReady:
		err = failed(st.Problem)
	default:
		err = r.checkObjects()
	}
	if err != nil {
		return nil, nil, err
	}
	settings, err := g.settings(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range settings {
		switch {
		case s.key == "core.bare" && s.own && s.value == "true" && r.dir == r.common:
			return nil, nil, failed("The repository in " + r.root + " is bare, so it has no work tree that could be merged into. Choose a clone of it.")
		case s.key == "extensions.refstorage" && s.own && s.value != "files":
			return nil, nil, failed("The repository in " + r.root + " stores its references as " + text.OneLine(s.value, 40) + ", with which Runnel makes no worktrees. Make one with git worktree add, and start the session there.")
		}
	}
	return r, settings, nil
}

// head returns the id of the last commit, or "" if there is none.
func (g *Git) head(ctx context.Context, r *repository) (string, error) {
	id, err := g.line(ctx, r, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if f := (*failure)(nil); errors.As(err, &f) && f.code == 1 {
		return "", nil
	}
	return id, err
}

// branch returns the branch that is checked out, or "".
func (r *repository) branch() string { return branchIn(r.dir) }

// branchIn returns the branch that HEAD of a git directory names, or "".
func branchIn(dir string) string {
	head, err := nofollow.ReadSmall(filepath.Join(dir, "HEAD"), maxPointer)
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if !ok {
		return ""
	}
	return name
}

// AddWorktree makes a worktree that [Git.PlanWorktree] returned. The folder that
// contains it must exist. After an error nothing of it is left.
//
// AddWorktree writes the files of git's worktree format itself, because git
// worktree add works only with the configuration of the repository. No hook
// runs; filters of the repository run in a trusted folder only. Submodules stay
// empty.
func (g *Git) AddWorktree(ctx context.Context, project Folder, w Worktree) (err error) {
	g.change.Lock()
	defer g.change.Unlock()
	project.Other = w.Root
	r, settings, err := g.home(ctx, project)
	if err != nil {
		return err
	}
	if !project.Trusted {
		if err := r.checkBranchFile(w.Branch); err != nil {
			return err
		}
	}
	if err := os.Mkdir(w.Root, 0o700); err != nil {
		return failed("The folder of the worktree cannot be created: "+err.Error()+".", err)
	}
	defer func() {
		if err != nil {
			_ = g.dropFiles(r, w)
		}
	}()
	if err := r.link(w, settings); err != nil {
		return err
	}
	// With an empty old value, git refuses a branch that exists.
	if _, err := g.line(ctx, r, "update-ref", "refs/heads/"+w.Branch, w.Base, ""); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = g.line(context.WithoutCancel(ctx), r, "update-ref", "-d", "refs/heads/"+w.Branch, w.Base)
		}
	}()
	wr, err := g.tree(ctx, r, w)
	if err != nil {
		return err
	}
	_, err = g.within(ctx, wr, command{args: []string{"reset", "--quiet", "--hard"}, time: checkTime, most: maxList})
	return err
}

// adminName is the name of the worktree's directory in worktrees of the git
// directory.
func (w Worktree) adminName() string { return filepath.Base(w.Root) }

// link writes the two pointers between the worktree and the repository, and
// HEAD of the worktree.
func (r *repository) link(w Worktree, settings []setting) error {
	wrong := func(err error) error {
		return failed("The worktree cannot be added to the repository: "+err.Error()+".", err)
	}
	common, err := nofollow.Root(r.common)
	if err != nil {
		return wrong(err)
	}
	defer common.Close()
	if err := common.Mkdir("worktrees", 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return wrong(err)
	}
	all, err := nofollow.OpenDir(common, "worktrees")
	if err != nil {
		return wrong(err)
	}
	defer all.Close()
	if err := all.Mkdir(w.adminName(), 0o777); err != nil {
		return wrong(err)
	}
	admin, err := nofollow.OpenDir(all, w.adminName())
	if err != nil {
		return wrong(err)
	}
	defer admin.Close()
	dotGit := filepath.Join(w.Root, ".git")
	files := map[string]string{"gitdir": dotGit + "\n", "commondir": "../..\n", "HEAD": "ref: refs/heads/" + w.Branch + "\n"}
	if err := r.sparse(files, settings); err != nil {
		return err
	}
	for name, content := range files {
		if dir := filepath.Dir(name); dir != "." {
			_ = admin.Mkdir(dir, 0o777) // an error shows when the file is written
		}
		if err := admin.WriteFile(name, []byte(content), 0o666); err != nil {
			return wrong(err)
		}
	}
	if err := os.WriteFile(dotGit, []byte("gitdir: "+filepath.Join(r.common, "worktrees", w.adminName())+"\n"), 0o666); err != nil {
		return wrong(err)
	}
	return nil
}

// maxSparse is the maximum size of the patterns of a sparse checkout, in bytes.
const maxSparse = 1 << 20

// sparse adds the files that give the worktree the same sparse checkout as the
// project.
func (r *repository) sparse(files map[string]string, settings []setting) error {
	path := filepath.Join(r.dir, "info", "sparse-checkout")
	if _, err := os.Lstat(path); err != nil {
		return nil //nolint:nilerr // the checkout is not sparse
	}
	patterns, err := nofollow.ReadSmall(path, maxSparse)
	if err != nil {
		return failed(path+" cannot be read: "+err.Error()+".", err)
	}
	files["info/sparse-checkout"] = string(patterns)
	perWorktree, config := false, ""
	for _, s := range settings {
		switch {
		case !s.own:
		case s.key == "extensions.worktreeconfig":
			perWorktree = s.value == "true"
		case s.key == "core.sparsecheckout" || s.key == "core.sparsecheckoutcone" || s.key == "index.sparse":
			section, name, _ := strings.Cut(s.key, ".")
			config += "[" + section + "]\n\t" + name + " = " + quote(s.value) + "\n"
		}
	}
	if perWorktree {
		files["config.worktree"] = config
	}
	return nil
}

// tree returns the repository of a worktree, as seen from the worktree. It fails
// if the worktree belongs to another repository than r. The folder of the
// result is the whole worktree.
func (g *Git) tree(ctx context.Context, r *repository, w Worktree) (*repository, error) {
	wr, err := g.writable(ctx, Folder{Dir: w.Root, Trusted: r.folder.Trusted, Closed: r.folder.Closed, Other: r.folder.Dir})
	if err != nil {
		return nil, err
	}
	if wr.root != w.Root || !same(wr.common, r.common) {
		return nil, failed("The file " + filepath.Join(w.Root, ".git") + " no longer leads to the repository of the project. Restore it with git worktree repair " + w.Root + " in " + r.root + ".")
	}
	return wr, nil
}

// dropFiles removes the folder of a worktree and its directory in the
// repository, unless that directory belongs to another worktree. It follows no
// link. The folder gets another name first, so that a worktree exists either
// completely or not at all.
func (g *Git) dropFiles(r *repository, w Worktree) error {
	aside := w.Root + removedMark + rand.Text()
	if err := os.Rename(w.Root, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return failed("The worktree cannot be removed: "+err.Error()+".", err)
	}
	g.mu.Lock()
	delete(g.checks, w.Root)
	g.mu.Unlock()
	err := dropAdmin(r, w)
	if left := removeAll(aside); left != nil && err == nil {
		err = failed("The worktree was removed, but its files cannot be deleted completely: "+left.Error()+". Delete the rest in "+aside+".", left)
	}
	return err
}

// removedMark, followed by a random text, ends the name of the folder of a
// worktree while its files are deleted.
const removedMark = ".removed-"

// FinishRemovals deletes the files of worktrees in dir whose removal a crash
// interrupted after its checks.
func FinishRemovals(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() && isRemoved(e.Name()) && mountedIn(path) == "" {
			err = errors.Join(err, removeAll(path))
		}
	}
	return err
}

// isRemoved reports whether a folder has the name that dropFiles gives. The name
// of a worktree contains the project's name, which may look similar.
func isRemoved(name string) bool {
	at := strings.LastIndex(name, removedMark)
	if at < 0 {
		return false
	}
	id := name[at+len(removedMark):]
	return len(id) == len(rand.Text()) && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// removeAll is os.RemoveAll that also removes folders without the permission to
// write, such as those of the module cache of Go.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	parent, err := nofollow.Root(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	_ = fs.WalkDir(parent.FS(), filepath.Base(path), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = parent.Chmod(name, 0o700)
		}
		if err != nil {
			return fs.SkipDir // an error shows when the folder is removed
		}
		return nil
	})
	return os.RemoveAll(path)
}

// dropAdmin removes the directory of a worktree in the repository.
func dropAdmin(r *repository, w Worktree) error {
	common, err := nofollow.Root(r.common)
	if err != nil {
		return failed("The git directory cannot be opened: "+err.Error()+".", err)
	}
	defer common.Close()
	all, err := nofollow.OpenDir(common, "worktrees")
	if err != nil {
		return nil //nolint:nilerr // the repository has no worktrees
	}
	defer all.Close()
	admin := filepath.Join(r.common, "worktrees", w.adminName())
	if _, err := os.Lstat(admin); err != nil {
		return nil //nolint:nilerr // it was removed before
	}
	if back, err := readPointer(filepath.Join(admin, "gitdir"), ""); err == nil && back != filepath.Join(w.Root, ".git") {
		return failed(admin + " belongs to another worktree by now, so it stays.")
	}
	if err := all.RemoveAll(w.adminName()); err != nil {
		return failed(admin+" cannot be removed: "+err.Error()+".", err)
	}
	_ = common.Remove("worktrees") // succeeds if the directory is empty
	return nil
}

// names lists files for an error message, at most 20.
func names(files []string, more int) string {
	const most = 20
	if len(files) > most {
		more += len(files) - most
		files = files[:most]
	}
	shown := make([]string, 0, len(files)+1)
	for _, f := range files {
		shown = append(shown, text.OneLine(f, 200))
	}
	if more > 0 {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", ")
}

func paths(files []ChangedFile) (out []string) {
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

// loses returns the error for a removal that would lose work, with a list of the
// work.
func loses(what []string) error {
	return &runnel.Error{
		Code: runnel.GitFailed, Details: map[string]any{"loses": slices.Clone(what)},
		Message: "Removing the worktree would lose " + strings.Join(what, ", and ") + ". Merge or commit it first, or confirm with discard.",
	}
}
