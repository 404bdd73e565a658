package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
)

// maxSeenBytes bounds the content of files that are not committed, in bytes, up
// to which [WorktreeStatus.Seen] stands for the content. For further files it
// stands for their size and the times of their last changes.
const maxSeenBytes = 64 << 20

// seenReady returns [WorktreeStatus.Seen] of a worktree that was examined, and
// what stands for each file that is not committed, by path.
func (g *Git) seenReady(ctx context.Context, r, wr *repository, list listing, st WorktreeStatus) (_ string, states map[string]string, _ error) {
	project, err := g.head(ctx, r)
	if err != nil {
		return "", nil, err
	}
	branch, err := g.branchHead(ctx, r, st.Branch)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q %q %q %q %t\n", st.State, st.Head, st.Current, branch, st.Target, project, st.Operation, st.More)
	for _, s := range list.staged {
		fmt.Fprintf(sum, "staged %q\n", s)
	}
	for _, n := range list.nested {
		fmt.Fprintf(sum, "repository %q\n", n)
	}
	left := int64(maxSeenBytes)
	states = make(map[string]string)
	for _, f := range list.files {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		state, err := seenFile(wr.root, f.Path, &left)
		if err != nil {
			return "", nil, err
		}
		if states[f.Path] = state; f.From != "" {
			spare := int64(0) // a file that was moved rarely exists
			if states[f.From], err = seenFile(wr.root, f.From, &spare); err != nil {
				return "", nil, err
			}
		}
		fmt.Fprintf(sum, "file %q %q %q %t %t %s\n", f.Path, f.Staged, f.Unstaged, f.Untracked, f.Conflict, state)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), states, nil
}

// folderCost is what seenFile takes from its budget for each folder on the way to
// a file, in bytes: each is opened on its own.
const folderCost = 1 << 10

// seenFile returns what stands for a file of a worktree. It takes the size of a
// file whose content it reads, and folderCost, from left.
func seenFile(root, path string, left *int64) (string, error) {
	st, err := os.Lstat(filepath.Join(root, filepath.FromSlash(path)))
	cost := int64(strings.Count(path, "/")) * folderCost
	if err == nil && st.Mode().IsRegular() {
		cost += st.Size()
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return absentFile, nil
	case err != nil:
		return seen(root, path)
	case cost <= *left:
		*left -= cost
		return seen(root, path)
	}
	inode, changed := changeTime(st)
	return fmt.Sprintf("%d %s %d %s %o", st.Size(), st.ModTime(), inode, changed, st.Mode()), nil
}

// seenUnready returns [WorktreeStatus.Seen] of a worktree that cannot be
// examined. r is nil if the project cannot be examined either.
func (g *Git) seenUnready(ctx context.Context, r *repository, st WorktreeStatus) (string, error) {
	branch := ""
	if r != nil {
		var err error
		if branch, err = g.branchHead(ctx, r, st.Branch); err != nil && !isRefusal(err) {
			return "", err
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", st.State, st.Problem, branch))
	return hex.EncodeToString(sum[:16]), nil
}

// checkSeen fails with CHANGES_OUTDATED if the worktree is not as the client has
// seen it. An empty seen is not compared.
func (g *Git) checkSeen(ctx context.Context, project Folder, w Worktree, seen, then string) error {
	if seen == "" {
		return nil
	}
	st, err := g.WorktreeStatus(ctx, project, w)
	if err != nil {
		return err
	}
	if st.Seen != seen {
		return outdatedWorktree(then)
	}
	return nil
}

func outdatedWorktree(then string) error {
	return outdated("The worktree or the project's branch has changed since you looked at it. Look at it again, then " + then + ".")
}

// CheckWorktreeSeen fails with CHANGES_OUTDATED if seen is not
// [WorktreeStatus.Seen] any more, before a removal. It changes nothing.
func (g *Git) CheckWorktreeSeen(ctx context.Context, project Folder, w Worktree, seen string) error {
	return g.checkSeen(ctx, project, w, seen, "remove it")
}

// missingSeen is the error for a request that does not say what the client has
// seen.
func missingSeen() error {
	return runnel.Fail(runnel.InvalidRequest, "seen: is missing; send the value from the state of the worktree that you looked at")
}
