package changes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// A Reverted is the result of a revert.
type Reverted struct {
	Path string `json:"path" doc:"Path of the file, relative to the session's folder."`
	Kept string `json:"kept,omitempty" doc:"Id of a git object with the content that the file had before. git cat-file blob ID prints it, until git removes unused objects after some weeks. Absent if there was no content."`
}

// Revert gives a file the content of the last commit, and removes a file that
// the last commit does not have. seen is [Diff.Seen]; Revert fails with
// CHANGES_OUTDATED if the file has changed since. It fails if the file has
// changes that are not staged, unless losesUnstaged is true.
func (g *Git) Revert(ctx context.Context, f Folder, path, seenAs string, losesUnstaged bool) (Reverted, error) {
	path, err := local(path)
	if err != nil {
		return Reverted{}, err
	}
	if seenAs == "" {
		return Reverted{}, runnel.Fail(runnel.InvalidRequest, "seen: is missing; send the value from the diff that you looked at")
	}
	g.change.Lock()
	defer g.change.Unlock()
	r, err := g.writable(ctx, f)
	if err != nil {
		return Reverted{}, err
	}
	e, err := g.revertible(ctx, r, path)
	if err != nil {
		return Reverted{}, err
	}
	if now, err := seen(f.Dir, path); err != nil {
		return Reverted{}, err
	} else if now != seenAs {
		return Reverted{}, outdated("The file has changed since you looked at it: " + path + ". Look at it again, then revert.")
	}
	if e.Unstaged != "" && !losesUnstaged {
		return Reverted{}, failed("The file has changes that are not staged, and reverting loses them: " + path + ". Stage the file, or confirm with losesUnstaged.")
	}
	kept, err := g.keep(ctx, r, path)
	if err != nil {
		return Reverted{}, err
	}
	if err := g.restore(ctx, r, e); err != nil {
		return Reverted{}, halfReverted(kept, err)
	}
	return Reverted{Path: path, Kept: kept}, nil
}

// halfReverted returns the error of a revert that has failed after the content
// of the file was kept: git may have removed the file by then.
func halfReverted(kept string, err error) error {
	var f *runnel.Error
	if kept == "" || !errors.As(err, &f) {
		return err
	}
	return &runnel.Error{
		Code: f.Code, Err: err, Details: map[string]any{"kept": kept},
		Message: strings.TrimSuffix(f.Message, ".") + ". What the file contained is kept: git cat-file blob " + kept,
	}
}

// revertible returns the state of a file that can be reverted.
func (g *Git) revertible(ctx context.Context, r *repository, path string) (ChangedFile, error) {
	e, err := g.entry(ctx, r, path)
	switch {
	case err != nil:
		return e, err
	case r.operation() != "" || e.Conflict:
		return e, failed("A " + r.operation() + " is not finished. Finish or abort it in a terminal, then revert.")
	case e.Submodule:
		return e, failed("This is another repository within the folder: " + path + ". Revert it in a terminal.")
	}
	if in := cmp.Or(replacedFolder(r.folder.Dir, path), replacedFolder(r.folder.Dir, e.From)); in != "" {
		return e, failed("Something else has the name of the folder " + in + " now, which the revert would replace. Move it away, then revert.")
	}
	if st, err := os.Lstat(filepath.Join(r.folder.Dir, filepath.FromSlash(path))); err == nil && st.IsDir() {
		return e, failed("A folder has the name " + path + " now, which the revert would remove with all its files. Move it away, then revert.")
	}
	if e.Staged == event.ChangeMove && e.From != "" { // the revert writes this file, too
		if _, err := os.Lstat(filepath.Join(r.folder.Dir, filepath.FromSlash(e.From))); !errors.Is(err, os.ErrNotExist) {
			return e, failed("The file was moved from " + e.From + ", and another file has this name now, which the revert would replace. Move it away, then revert.")
		}
	}
	return e, nil
}

// keep stores the content of a file as a git object and returns its id, or ""
// if there is no content that can be stored.
func (g *Git) keep(ctx context.Context, r *repository, path string) (string, error) {
	root, err := nofollow.RootInPlace(r.folder.Dir)
	if err != nil {
		return "", runnel.Fail(runnel.WorkingRootInaccessible, "the session's folder cannot be opened", err)
	}
	defer root.Close()
	name := filepath.FromSlash(path)
	file, err := nofollow.Open(root, name)
	if err != nil {
		switch st, absent := root.Lstat(name); {
		case errors.Is(absent, fs.ErrNotExist):
			return "", nil
		case absent != nil || st.Mode().IsRegular(): // such as the file of another user
			return "", failed("The file cannot be read, so its content cannot be kept: "+path+". Revert it in a terminal.", err)
		}
		return "", nil //nolint:nilerr // a link has no content to keep
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxKept+1))
	if err != nil {
		return "", failed("The file cannot be read: "+path+".", err)
	}
	if len(b) > maxKept {
		return "", failed("The file is too large to be kept: " + path + ". Revert it in a terminal.")
	}
	out, err := g.within(ctx, r, command{args: []string{"hash-object", "-w", "--no-filters", "--stdin"}, stdin: b, time: writeTime, most: maxPath})
	if err != nil {
		return "", err
	}
	return string(out[:max(len(out)-1, 0)]), nil
}

// restore reverts a file.
func (g *Git) restore(ctx context.Context, r *repository, e ChangedFile) error {
	if e.Untracked {
		return remove(r.folder.Dir, e.Path)
	}
	run := func(args ...string) error {
		_, err := g.within(ctx, r, command{args: args, time: writeTime, most: maxList})
		return err
	}
	if e.Staged != event.ChangeCreate && e.Staged != event.ChangeMove {
		return run("checkout", "--quiet", "HEAD", "--", r.path(e.Path))
	}
	if err := run("rm", "--cached", "--quiet", "--force", "--", r.path(e.Path)); err != nil {
		return err
	}
	if err := remove(r.folder.Dir, e.Path); err != nil {
		return err
	}
	if e.Staged == event.ChangeMove && e.From != "" {
		return run("checkout", "--quiet", "HEAD", "--", r.path(e.From))
	}
	return nil
}

// remove removes a file of the folder, or a link. No folder on the way may be a
// link.
func remove(dir, path string) error {
	root, err := nofollow.RootInPlace(dir)
	if err != nil {
		return runnel.Fail(runnel.WorkingRootInaccessible, "the session's folder cannot be opened", err)
	}
	defer root.Close()
	name := filepath.FromSlash(path)
	sub, err := nofollow.OpenDir(root, filepath.Dir(name))
	if errors.Is(err, nofollow.ErrUnreadable) {
		return nil // git deleted it already, with its folder
	}
	if err != nil {
		return failed("The file cannot be removed: "+path+" "+err.Error()+".", err)
	}
	defer sub.Close()
	if err := sub.Remove(filepath.Base(name)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrNotExist) {
		return failed("The file cannot be removed: "+path+".", err)
	}
	return nil
}
