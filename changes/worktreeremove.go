package changes

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
)

// A Removed is a worktree that was removed.
type Removed struct {
	Root   string   `json:"root" doc:"Absolute path that the worktree had."`
	Branch string   `json:"branch,omitempty" doc:"The branch that was made for the worktree, if it stays because another work tree has it checked out."`
	Head   string   `json:"head,omitempty" doc:"Id of the last commit that the worktree had. git branch NAME ID restores its commits, until git removes unused objects after some weeks."`
	Lost   []string `json:"lost,omitempty" doc:"What was discarded. Absent if nothing was lost."`
}

// A Loss is what the removal of a worktree may lose.
type Loss int

// The kinds of loss. Each includes those before it.
const (
	LoseNothing Loss = iota
	LoseIgnored      // files that git ignores, such as dependencies and .env
	LoseWork         // files that are not committed, and commits that are on no other branch
)

// RemoveWorktree removes a worktree and the branch that was made for it. It
// fails if more would be lost than may allows. If files cannot be deleted, it
// fails, but the worktree is removed: its folder has another name, which the
// error says. seen is [WorktreeStatus.Seen]: if the state is another one by now,
// RemoveWorktree fails with CHANGES_OUTDATED. Default: the state is not compared.
func (g *Git) RemoveWorktree(ctx context.Context, project Folder, w Worktree, may Loss, seen string) (Removed, error) {
	g.change.Lock()
	defer g.change.Unlock()
	if err := g.checkSeen(ctx, project, w, seen, "remove it"); err != nil {
		return Removed{Root: w.Root}, err
	}
	project.Other = w.Root
	r, _, err := g.home(ctx, project)
	if err != nil {
		return Removed{Root: w.Root}, err
	}
	branchHead, err := g.branchHead(ctx, r, w.Branch)
	if err != nil {
		return Removed{Root: w.Root}, err
	}
	out, err := g.loss(ctx, r, w, branchHead, may)
	if err != nil {
		return out, err
	}
	return g.remove(ctx, r, w, branchHead, out)
}

// DropUnfinished removes a worktree whose creation a crash interrupted, unless
// it has work. No agent has worked in it before it has an index, although all
// its files seem to be deleted then.
func (g *Git) DropUnfinished(ctx context.Context, project Folder, w Worktree) (Removed, error) {
	project.Other = w.Root
	r, _, err := g.home(ctx, project)
	if err != nil {
		return Removed{Root: w.Root}, err
	}
	head, err := g.branchHead(ctx, r, w.Branch)
	if err != nil {
		return Removed{Root: w.Root}, err
	}
	may := LoseIgnored
	_, err = os.Lstat(filepath.Join(r.common, "worktrees", w.adminName(), "index"))
	if errors.Is(err, os.ErrNotExist) && (head == "" || head == w.Base) {
		may = LoseWork
	}
	return g.RemoveWorktree(ctx, project, w, may, "")
}

// CheckLoss fails as [Git.RemoveWorktree] would fail because too much would be
// lost. It changes nothing.
func (g *Git) CheckLoss(ctx context.Context, project Folder, w Worktree, may Loss) error {
	project.Other = w.Root
	r, _, err := g.home(ctx, project)
	if err != nil {
		return err
	}
	branchHead, err := g.branchHead(ctx, r, w.Branch)
	if err == nil {
		_, err = g.loss(ctx, r, w, branchHead, may)
	}
	return err
}

// loss returns what the removal of a worktree loses, other than ignored files if
// they may be lost. It fails if that is more than may allows.
func (g *Git) loss(ctx context.Context, r *repository, w Worktree, branchHead string, may Loss) (Removed, error) {
	discard := may == LoseWork
	out, heads := Removed{Root: w.Root, Head: branchHead}, []string{}
	if at := mountedIn(w.Root); at != "" { // its files are elsewhere, so nobody who discards the worktree means them
		return out, failed("Something is mounted at " + at + ", whose files would be deleted. Unmount it, then remove the worktree.")
	}
	if branchHead != "" {
		heads = append(heads, branchHead)
	}
	if !w.missing() {
		head, lost, err := g.unsaved(ctx, r, w, may)
		switch {
		case err != nil && !discard:
			return out, err
		case err != nil && !isRefusal(err):
			return out, err
		case err != nil:
			lost = []string{"everything in " + w.Root + ", which could not be examined"}
		}
		out.Lost = lost
		if head != "" {
			heads, out.Head = append(heads, head), head
		}
	}
	if _, err := os.Lstat(filepath.Join(r.common, "worktrees", w.adminName(), "locked")); err == nil {
		out.Lost = append(out.Lost, "the lock that git worktree lock made")
	}
	n, err := g.unmerged(ctx, r, w, heads)
	if err != nil {
		return out, err
	}
	if n > 0 {
		out.Lost = append(out.Lost, count(n, "commit")+" that no other branch has")
	}
	if len(out.Lost) > 0 && !discard {
		return out, loses(out.Lost)
	}
	return out, nil
}

// remove removes the folder of a worktree, then its branch.
func (g *Git) remove(ctx context.Context, r *repository, w Worktree, branchHead string, out Removed) (Removed, error) {
	left := g.dropFiles(r, w)
	switch {
	case left != nil && !w.missing():
		return out, left
	case branchHead == "":
		return out, left
	case r.checkedOut(w.Branch):
		out.Branch = w.Branch
		return out, left
	}
	if !r.folder.Trusted {
		if err := r.checkBranchFile(w.Branch); err != nil {
			return out, err
		}
	}
	_, err := g.line(ctx, r, "update-ref", "-d", "refs/heads/"+w.Branch, branchHead)
	return out, cmp.Or(left, err)
}

// branchHead returns the commit of a branch, or "" if there is no such branch.
func (g *Git) branchHead(ctx context.Context, r *repository, branch string) (string, error) {
	return g.line(ctx, r, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// unsaved returns the last commit of a worktree, and what is in the worktree but
// in no commit. It names all ignored files if none may be lost, else only those
// folders that contain a repository.
func (g *Git) unsaved(ctx context.Context, r *repository, w Worktree, may Loss) (head string, lost []string, err error) {
	wr, err := g.tree(ctx, r, w)
	if err != nil {
		return "", nil, err
	}
	if head, err = g.head(ctx, wr); err != nil {
		return "", nil, err
	}
	if op := wr.operation(); op != "" {
		lost = append(lost, "an unfinished "+op)
	}
	changed, others, err := g.entries(ctx, wr)
	var closed, within []string
	if err == nil {
		closed, within, err = passedOver(ctx, w.Root, slices.Concat(changed, others))
	}
	if err == nil && may != LoseNothing {
		others, err = withRepositories(w.Root, others)
	}
	if err != nil {
		return head, nil, err
	}
	if len(changed) > 0 {
		lost = append(lost, "changes that are not committed in "+names(changed, 0))
	}
	switch {
	case len(others) > 0 && may == LoseNothing:
		lost = append(lost, "the ignored files "+names(others, 0))
	case len(others) > 0:
		lost = append(lost, "the repositories in "+names(others, 0))
	}
	if len(closed) > 0 {
		lost = append(lost, "the folders "+names(closed, 0)+", which cannot be listed")
	}
	if len(within) > 0 {
		lost = append(lost, "the repositories "+names(within, 0))
	}
	submodules, hidden, err := g.unreported(ctx, wr)
	if len(hidden) > 0 {
		lost = append(lost, "changes that git was told not to report in "+names(hidden, 0))
	}
	if submodules {
		lost = append(lost, "the submodules in it")
	}
	return head, lost, err
}

// entries returns the files and folders of a worktree that differ from the last
// commit, and those that git ignores.
func (g *Git) entries(ctx context.Context, wr *repository) (changed, others []string, err error) {
	// Unlike Git.list, this also lists repositories within the worktree. With
	// core.ignoreCase, which a repository may have from another system, git would
	// report no file and no .git whose name differs only in case from a tracked one.
	args := []string{"-c", "core.ignoreCase=false", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignored", g.submodules(wr)}
	out, err := g.read(ctx, wr, maxList, args...)
	if err != nil && !errors.Is(err, errCut) {
		return nil, nil, err
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		switch {
		case len(record) <= 3:
		case strings.HasPrefix(record, "!!"):
			others = append(others, record[3:])
		default:
			changed = append(changed, record[3:])
		}
	}
	return changed, others, nil
}

// passedOver returns what git status does not report of a worktree: folders that
// cannot be listed, and the git directories of repositories in folders with
// tracked files. It does not look into the folders in reported.
func passedOver(ctx context.Context, dir string, reported []string) (closed, repositories []string, err error) {
	skip := make(map[string]bool, len(reported))
	for _, name := range reported {
		skip[strings.TrimSuffix(name, "/")] = true
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path) // path begins with dir
		name = filepath.ToSlash(name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			closed = append(closed, name+"/")
		case !d.IsDir() || name == ".git": // the file .git of a submodule is no repository
		case skip[name]:
			return fs.SkipDir
		case d.Name() == ".git":
			repositories = append(repositories, name)
			return fs.SkipDir
		}
		return nil
	})
	return closed, repositories, err
}

// maxLooked bounds the files and folders that withRepositories examines.
const maxLooked = 200_000

// withRepositories returns the ignored folders of a worktree that contain a
// repository, because its commits may exist only there. It also returns folders
// that have too many files to be searched, or that cannot be read.
func withRepositories(dir string, ignored []string) (found []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	left := maxLooked
	for _, name := range ignored {
		if !strings.HasSuffix(name, "/") {
			continue
		}
		within := false
		err := fs.WalkDir(root.FS(), strings.TrimSuffix(name, "/"), func(_ string, d fs.DirEntry, err error) error {
			if left--; err == nil && left > 0 && d.Name() != ".git" {
				return nil
			}
			within = true // also if it cannot be read
			return fs.SkipAll
		})
		if err != nil {
			return nil, err
		}
		if within {
			found = append(found, name)
		}
	}
	return found, nil
}

// A Leftover is what a worktree has that is in no commit.
type Leftover struct {
	Uncommitted int      // files that differ from the last commit, or are new
	Ignored     []string // files and folders that git ignores; a folder ends with a slash
}

// Leftover returns what a worktree has that is in no commit. It changes nothing.
func (g *Git) Leftover(ctx context.Context, project Folder, w Worktree) (l Leftover, err error) {
	_, wr, err := g.pair(ctx, project, w)
	if err != nil {
		return l, err
	}
	list, err := g.list(ctx, wr)
	if err != nil && !errors.Is(err, errCut) {
		return l, err
	}
	l.Uncommitted = len(list.files) + len(list.nested)
	_, l.Ignored, err = g.entries(ctx, wr)
	return l, err
}

// unmerged returns the number of commits up to heads that only the branch of the
// worktree has.
func (g *Git) unmerged(ctx context.Context, r *repository, w Worktree, heads []string) (int, error) {
	if len(heads) == 0 {
		return 0, nil
	}
	args := append([]string{"rev-list", "--count"}, heads...)
	args = append(args, "--not", "--exclude="+w.Branch, "--branches", "--tags", "--remotes")
	if id, err := g.head(ctx, r); err != nil {
		return 0, err
	} else if id != "" {
		args = append(args, id)
	}
	line, err := g.line(ctx, r, args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(line)
}

// checkedOut reports whether a work tree of the repository has the branch
// checked out.
func (r *repository) checkedOut(branch string) bool {
	if branchIn(r.common) == branch {
		return true
	}
	entries, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if branchIn(filepath.Join(r.common, "worktrees", e.Name())) == branch {
			return true
		}
	}
	return false
}

// isRefusal reports whether git or this package refused an operation, in
// contrast to one that was interrupted.
func isRefusal(err error) bool { return runnel.CodeOf(err) == runnel.GitFailed }

// count returns a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
