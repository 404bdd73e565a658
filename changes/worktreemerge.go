package changes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Merged is a merge that was made.
type Merged struct {
	Commit      string `json:"commit" doc:"Id of the last commit of the project's branch after the merge."`
	Branch      string `json:"branch" doc:"The project's branch."`
	Commits     int    `json:"commits" doc:"Number of commits of the worktree that the branch now has in addition."`
	FastForward bool   `json:"fastForward" doc:"Whether the branch was moved forward without a merge commit, because the project had no other new commits."`
	Committed   string `json:"committed,omitempty" doc:"Id of the commit that was made in the worktree before the merge. Absent if everything was committed."`
}

// MergeWorktree adds the commits of a worktree to the branch that is checked
// out in the project, and updates the project's files. It moves the branch
// forward if possible, and otherwise makes a merge commit with the author from
// the git configuration.
//
// If files of the worktree are not committed, MergeWorktree commits them first,
// with the message; without one it fails and lists the files. If the merge
// conflicts, or would overwrite changes in the project that are not committed,
// it fails and leaves the project as it was.
//
// seen is [WorktreeStatus.Seen]; MergeWorktree fails with CHANGES_OUTDATED if
// the state is another one by now.
func (g *Git) MergeWorktree(ctx context.Context, project Folder, w Worktree, message, seen string) (Merged, error) {
	message = strings.TrimSpace(message)
	if err := checkMessage(message); err != nil {
		return Merged{}, err
	}
	if seen == "" {
		return Merged{}, missingSeen()
	}
	g.change.Lock()
	defer g.change.Unlock()
	if err := g.checkSeen(ctx, project, w, seen, "merge"); err != nil {
		return Merged{}, err
	}
	r, wr, err := g.pair(ctx, project, w)
	now := WorktreeStatus{Worktree: w, State: WorktreeReady}
	if err == nil { // seen stands for no commit and no file unless this succeeds
		err = g.examine(ctx, r, wr, &now)
	}
	switch {
	case err != nil:
		return Merged{}, err
	case now.Seen != seen:
		return Merged{}, outdatedWorktree("merge")
	}
	m := Merged{Branch: r.branch()}
	if err := mergeable(r, wr, m.Branch); err != nil {
		return m, err
	}
	if m.Committed, err = g.commitAll(ctx, wr, message); err != nil {
		return m, err
	}
	head, err := g.head(ctx, wr)
	if err != nil {
		return m, err
	}
	if err := g.checkCommitted(ctx, wr, now, head); err != nil {
		return m, err
	}
	behind, ahead, err := 0, 0, error(nil)
	if head != "" {
		behind, ahead, err = g.apart(ctx, r, head)
	}
	switch {
	case err != nil:
		return m, err
	case ahead == 0:
		return m, failed("The worktree has no commit that the branch " + m.Branch + " lacks, so there is nothing to merge.")
	}
	if err := g.staysInside(ctx, r, w, "HEAD..."+head); err != nil {
		return m, err
	}
	m.Commits, m.FastForward, m.Commit = ahead, behind == 0, head
	if !m.FastForward {
		if m.Commit, err = g.join(ctx, r, head, w); err != nil {
			return m, err
		}
		// The merge follows files that the project has moved, and may have more
		// common ancestors than the one with which head was compared.
		if err := g.staysInside(ctx, r, w, m.Commit+"^1", m.Commit); err != nil {
			return m, err
		}
	}
	if err := g.keepsRepositories(ctx, r, w, m.Commit); err != nil {
		return m, err
	}
	_, err = g.within(ctx, r, command{args: exact("merge", "--quiet", "--ff-only", "--no-autostash", "--no-overwrite-ignore", m.Commit), time: checkTime, most: maxList})
	return m, err
}

// mergeable fails if nothing can be merged into the project now.
func mergeable(r, wr *repository, branch string) error {
	if op := r.operation(); op != "" {
		return failed("In the project, a " + op + " is not finished. Finish or abort it in a terminal, then merge.")
	}
	if op := wr.operation(); op != "" {
		return failed("In the worktree, a " + op + " is not finished. Ask the agent to finish or abort it, then merge.")
	}
	if branch == "" {
		return failed("No branch is checked out in the project. Check one out in a terminal (git switch), then merge.")
	}
	if r.folder.Trusted {
		return nil
	}
	return r.checkBranch()
}

// commitAll commits all files of a worktree that differ from its last commit. It
// returns the id of the commit, or "" if no file differs.
func (g *Git) commitAll(ctx context.Context, wr *repository, message string) (string, error) {
	list, err := g.list(ctx, wr)
	cut := errors.Is(err, errCut)
	if err != nil && !cut {
		return "", err
	}
	switch files := paths(list.files); {
	case cut || list.more:
		return "", failed("Too many files of the worktree are not committed. Add generated files to .gitignore, or ask the agent to commit.")
	case len(files) == 0:
		return "", nil
	case message == "":
		return "", &runnel.Error{
			Code: runnel.GitFailed, Details: map[string]any{"uncommitted": files[:min(len(files), maxWorktreeFiles)]},
			Message: "Files of the worktree are not committed: " + names(files, 0) + ". Give a message to commit all of them and merge, or ask the agent to commit.",
		}
	case list.branch == "":
		return "", failed("No branch is checked out in the worktree, so its changes cannot be committed. Ask the agent to check out a branch.")
	}
	if i := slices.IndexFunc(list.files, func(f ChangedFile) bool { return f.Conflict }); i >= 0 {
		return "", failed("The file " + list.files[i].Path + " of the worktree has a conflict. Ask the agent to resolve it.")
	}
	if err := g.mayCommit(ctx, wr); err != nil {
		return "", err
	}
	var all []string
	for _, f := range list.files {
		if f.Unstaged != "" {
			all = append(all, f.Path)
		}
		if f.From != "" && f.Unstaged == event.ChangeMove {
			all = append(all, f.From)
		}
	}
	if all = withoutReplaced(wr.root, all); len(all) > 0 { // for the command, see Stage
		c := command{args: []string{"update-index", "--add", "--remove", "--replace", "-z", "--stdin"}, stdin: []byte(strings.Join(all, "\x00") + "\x00"), time: checkTime, most: maxList}
		if _, err := g.within(ctx, wr, c); err != nil {
			return "", err
		}
	}
	made, err := g.commit(ctx, wr, list.branch, message)
	return made.Commit, err
}

// staysInside fails, like [Git.Commit], if commits change files outside of the
// project's folder. git diff compares the revisions in between, or the two sides
// of a range such as "HEAD...abc".
func (g *Git) staysInside(ctx context.Context, r *repository, w Worktree, between ...string) error {
	if r.prefix == "" {
		return nil
	}
	args := append(exact("diff", "--no-renames", "--name-only", "-z", "--no-ext-diff", "--no-textconv"), between...)
	out, err := g.read(ctx, r, maxList, args...)
	if errors.Is(err, errCut) {
		return failed("The worktree changes too many files to check that they are in the project's folder. Merge in a terminal: git merge " + w.Branch + ".")
	}
	if err != nil {
		return err
	}
	var outside []string
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, inside := r.local(path); path != "" && !inside {
			outside = append(outside, path)
		}
	}
	if len(outside) > 0 {
		return failed("The merge changes files outside of the project's folder: " + names(outside, 0) + ". Merge in a terminal: git merge " + w.Branch + ".")
	}
	return nil
}

// join makes the merge commit of the project's last commit and head. It changes
// neither files nor references.
func (g *Git) join(ctx context.Context, r *repository, head string, w Worktree) (string, error) {
	// If a person commits during the merge, parent is no longer the last commit,
	// and the branch cannot be moved forward to the result.
	parent, err := g.head(ctx, r)
	if err != nil {
		return "", err
	}
	out, err := g.within(ctx, r, command{
		args: exact("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", parent, head), time: checkTime, most: maxList,
	})
	fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	f := (*failure)(nil)
	switch {
	case errors.As(err, &f) && f.code == 1:
		files := fields[1:]
		return "", &runnel.Error{
			Code: runnel.GitFailed, Details: map[string]any{"conflicts": files[:min(len(files), maxWorktreeFiles)]},
			Message: "The merge conflicts in " + names(files, 0) + ". The project is as before. Ask the agent to merge the branch " + r.branch() + " into its own, resolve the conflicts and commit; then merge.",
		}
	case errors.As(err, &f) && strings.Contains(f.said, "usage:"):
		return "", failed("The project's branch has other new commits, and this git cannot merge without the project's files. Install git 2.38 or newer, or merge in a terminal: git merge "+w.Branch+".", err)
	case err != nil:
		return "", err
	}
	if err := g.mayCommit(ctx, r); err != nil {
		return "", err
	}
	args := []string{"commit-tree"}
	signs, err := g.line(ctx, r, "config", "--type=bool", "--default=false", "--get", "commit.gpgSign")
	if err != nil {
		return "", err
	}
	if signs == "true" {
		args = append(args, "-S")
	}
	args = append(args, fields[0], "-p", parent, "-p", head)
	made, err := g.within(ctx, r, command{args: args, stdin: []byte("Merge branch '" + w.Branch + "' into " + r.branch() + "\n"), time: writeTime, most: maxPath, signs: true})
	return strings.TrimSpace(string(made)), err
}
