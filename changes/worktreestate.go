package changes

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
)

// A WorktreeState tells whether a worktree can be examined.
type WorktreeState string

// The states of a worktree.
const (
	WorktreeReady   WorktreeState = "ready"
	WorktreeMissing WorktreeState = "missing" // its folder does not exist
	WorktreeRefused WorktreeState = "refused" // git cannot be used in it or in the project
)

// maxWorktreeFiles bounds the files that the state of a worktree lists.
const maxWorktreeFiles = 200

// A WorktreeStatus is the state of a worktree.
type WorktreeStatus struct {
	Worktree
	State       WorktreeState `json:"state" enum:"ready,missing,refused" doc:"ready: the other fields are set. missing: somebody removed the folder of the worktree. refused: git cannot be used in the project or in the worktree."`
	Problem     string        `json:"problem,omitempty" doc:"Why the worktree cannot be examined, and what to do."`
	Current     string        `json:"current,omitempty" doc:"The branch that is checked out in the worktree; the agent may have changed it. Absent if none is."`
	Head        string        `json:"head,omitempty" doc:"Id of the last commit in the worktree. A merge adds the commits up to this one."`
	Target      string        `json:"target,omitempty" doc:"The project's branch, to which a merge adds the commits. Absent if no branch is checked out there; then nothing can be merged."`
	Ahead       int           `json:"ahead" doc:"Number of commits that the project's branch lacks."`
	Behind      int           `json:"behind" doc:"Number of commits of the project's branch that the worktree lacks. Not 0: the branch has moved, and a merge makes a merge commit."`
	Uncommitted int           `json:"uncommitted" doc:"Number of files that differ from the last commit of the worktree, or are new."`
	Files       []string      `json:"files" doc:"The first 200 of these files, relative to the worktree, with slashes."`
	More        bool          `json:"more,omitempty" doc:"Whether further files differ that are not counted."`
	Seen        string        `json:"seen" doc:"Stands for this state: the last commits of the worktree and of the project, their branches, and the content of the files that are not committed. A merge or a removal with this value fails with CHANGES_OUTDATED if the state has changed since."`
	Operation   string        `json:"operation,omitempty" doc:"The unfinished operation in the worktree, such as merge or rebase. Until it is finished, the server merges nothing."`

	states map[string]string // what stands for each of the files, and for those that are not listed
}

// WorktreeStatus returns the state of a worktree. It does not fail if git cannot
// be used there; see [WorktreeStatus.State].
func (g *Git) WorktreeStatus(ctx context.Context, project Folder, w Worktree) (WorktreeStatus, error) {
	st := WorktreeStatus{Worktree: w, State: WorktreeReady, Files: []string{}}
	r, wr, err := g.pair(ctx, project, w)
	if err == nil {
		err = g.examine(ctx, r, wr, &st)
	}
	switch refused := isRefusal(err); {
	case err == nil:
		return st, nil
	case !refused:
		return st, err
	}
	st = WorktreeStatus{Worktree: w, State: WorktreeRefused, Problem: err.Error(), Files: []string{}}
	if w.missing() {
		st.State = WorktreeMissing
	}
	st.Seen, err = g.seenUnready(ctx, r, st)
	return st, err
}

// missing reports whether the folder of the worktree does not exist.
func (w Worktree) missing() bool {
	st, err := os.Lstat(w.Root)
	return errors.Is(err, os.ErrNotExist) || err == nil && !st.IsDir()
}

// gone is the error for a worktree whose folder somebody removed.
func (w Worktree) gone() error {
	return failed("The worktree " + w.Root + " was removed. What was committed there is on the branch " + w.Branch + ".")
}

// pair returns the repository as seen from the project and from the worktree.
func (g *Git) pair(ctx context.Context, project Folder, w Worktree) (r, wr *repository, err error) {
	project.Other = w.Root
	if r, _, err = g.home(ctx, project); err != nil {
		return nil, nil, err
	}
	if w.missing() {
		return r, nil, w.gone()
	}
	wr, err = g.tree(ctx, r, w)
	return r, wr, err
}

// examine fills the state of a worktree.
func (g *Git) examine(ctx context.Context, r, wr *repository, st *WorktreeStatus) error {
	list, err := g.list(ctx, wr)
	if err != nil && !errors.Is(err, errCut) {
		return err
	}
	st.Current, st.Head, st.Operation, st.Target = list.branch, list.head, wr.operation(), r.branch()
	st.Uncommitted, st.Files, st.More = len(list.files), paths(list.files), list.more || err != nil
	if st.Files = st.Files[:min(len(st.Files), maxWorktreeFiles)]; st.Files == nil {
		st.Files = []string{}
	}
	if st.Head != "" { // else the agent has checked out a branch without commits
		if st.Behind, st.Ahead, err = g.apart(ctx, r, st.Head); err != nil {
			return err
		}
	}
	st.Seen, st.states, err = g.seenReady(ctx, r, wr, list, *st)
	return err
}

// apart returns the numbers of commits that only the project has, and that only
// the commit head and those before it have.
func (g *Git) apart(ctx context.Context, r *repository, head string) (project, worktree int, err error) {
	out, err := g.line(ctx, r, "rev-list", "--left-right", "--count", "HEAD..."+head)
	if err != nil {
		return 0, 0, err
	}
	if left, right, ok := strings.Cut(out, "\t"); ok {
		project, _ = strconv.Atoi(left)
		worktree, _ = strconv.Atoi(right)
	}
	return project, worktree, nil
}
