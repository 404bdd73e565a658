package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/files"
	"github.com/runnel-dev/runnel/internal/filediff"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// Bounds of reading changes.
const (
	changesTime = 10 * time.Second // of reading the log of a session
	maxLocated  = 1 << 20          // bytes of a file in which an edit is located
	maxIntended = 50               // changes of one approval that are located
	maxShown    = 8 << 20          // bytes of their hunks, with lineSize for each line
	lineSize    = 40
)

// Changes reads what agents changed, and reads and changes the folders of
// sessions with git. Its methods may be called concurrently.
type Changes struct{ g *Gateway }

// ChangesOf returns the changes in the sessions of g.
func ChangesOf(g *Gateway) Changes { return Changes{g} }

// Git returns the git of the server, for the folder that [Changes.Folder]
// returns.
func (c Changes) Git() *changes.Git { return c.g.git }

// Folder returns the folder of a session. It fails if the folder was replaced
// by a link. The folder of a sandbox is not trusted, because programs in the
// sandbox can write settings of git, which the server would follow outside of
// it. It is closed for the same reason, and so is every folder for a token for
// one project.
func (c Changes) Folder(ctx context.Context, ref string) (changes.Folder, error) {
	st, err := c.g.Status(ctx, ref)
	if err != nil {
		return changes.Folder{}, err
	}
	if err := c.g.opener.projects.recheckStatus(st); err != nil {
		return changes.Folder{}, err
	}
	f := changes.Folder{Dir: st.WorkDir()}
	if st.Worktree != nil {
		f.Other = st.ProjectDir
	}
	enclosed := c.g.enclosed(ctx, st.SessionID, f.Dir) || c.g.enclosedByOpen(st.ProjectDir)
	f.Trusted, f.Closed = c.g.opener.projects.trusts(st.ProjectDir) && !enclosed, enclosed || onlyProject(ctx) != ""
	return f, nil
}

// enclosed reports whether the agent of a session runs in a sandbox, or that of
// another open session that can write in the folder dir. If it cannot find out,
// it returns true.
func (g *Gateway) enclosed(ctx context.Context, id, dir string) bool {
	if g.enclosedByOpen(dir) {
		return true
	}
	rec, err := g.opener.record(ctx, id)
	if err != nil {
		return true
	}
	res, err := g.opener.resolveRecord(rec)
	return err != nil || res.Sandbox.IsOn()
}

// Net returns the combined changes that the agent of a session reported, of one
// turn or, if turn is empty, of the whole session. It leaves out files that the
// agent wrote for itself, such as its plan.
func (c Changes) Net(ctx context.Context, ref, turn string) (*filediff.Net, error) {
	st, err := c.g.Status(ctx, ref)
	if err != nil {
		return nil, err
	}
	own := make(map[string]bool)
	for _, f := range st.Files {
		if f.Kind == "plan" {
			own[f.Path] = true
		}
	}
	within, cancel := context.WithTimeout(ctx, changesTime)
	defer cancel()
	net, known := filediff.NewNet(st.WorkDir()), turn == ""
	for ev, err := range c.g.cfg.Log.Read(within, st.SessionID, 0) {
		if err == nil && (turn == "" || ev.Turn == turn) {
			known = true
			err = combine(within, net, changesIn(ev.Body), own)
		}
		if err != nil && ctx.Err() == nil && within.Err() != nil {
			return nil, runnel.Fail(runnel.Timeout, "the session is too long to read its changes in 10 seconds; ask for the changes of one turn", err)
		}
		if err != nil {
			return nil, storeError(err)
		}
		if turn != "" && ev.Turn != turn {
			continue
		}
		if turn != "" && event.Ends(ev.Body) {
			break
		}
	}
	if !known {
		return nil, runnel.Fail(runnel.InvalidRequest, "turn: the session has no turn with this id")
	}
	return net, nil
}

// combine adds changes to net, except for those of the files in own. One event
// has up to a thousand changes, each of which can take some tenths of a second.
func combine(ctx context.Context, net *filediff.Net, list []event.Change, own map[string]bool) error {
	for _, ch := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !own[ch.Path] {
			net.Add(ch)
		}
	}
	return nil
}

// changesIn returns the changes that a successful call made.
func changesIn(b event.Body) []event.Change {
	if done, ok := b.(event.ItemDone); ok {
		if out, ok := done.FinalItem.(event.FunctionCallOutput); ok && !out.IsError {
			return out.Changes
		}
	}
	return nil
}

// An Intended is a change that an agent asks to make.
type Intended struct {
	filediff.Located
	Problem string // why the file was not read; "" if it was read or does not exist
}

// Intended returns the changes of an approval that waits for a decision, with
// the places that they have in the files as they are now. It reads files in the
// session's folder only, and follows no links.
func (c Changes) Intended(ctx context.Context, ref, approval string, lines int) ([]Intended, error) {
	open, err := c.g.Approvals().Open(ctx, ref, approval)
	if err != nil {
		return nil, err
	}
	folder, err := c.Folder(ctx, ref)
	if err != nil {
		return nil, err
	}
	return intended(ctx, folder.Dir, open.Approval.Changes, lines)
}

func intended(ctx context.Context, dir string, list []event.Change, lines int) ([]Intended, error) {
	out := make([]Intended, 0, min(len(list), maxIntended))
	left := maxShown
	for _, ch := range list[:min(len(list), maxIntended)] {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		one := Intended{Located: filediff.Located{Change: ch, Place: filediff.PlaceUnknown}}
		var current *string
		if current, one.Problem = currentText(dir, ch); one.Problem == "" {
			found := filediff.Locate(ch, current, lines)
			if size := sizeOf(found.Hunks); size <= left {
				one.Located = found
				left -= size
			} else {
				one.Problem = "The change and the lines around it are too long. Fewer lines of context may fit."
			}
		}
		out = append(out, one)
	}
	return out, nil
}

func sizeOf(hunks []event.Hunk) (size int) {
	for _, h := range hunks {
		for _, l := range h.Lines {
			size += len(l) + lineSize
		}
	}
	return size
}

// currentText returns the text of the file that a change concerns, nil if the
// file does not exist, and why it cannot be read.
func currentText(dir string, ch event.Change) (text *string, problem string) {
	if isRedacted(ch) {
		return nil, "Runnel removed a secret from this change, so it cannot find its place in the file."
	}
	path := filepath.Clean(ch.Path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if !subpath.Within(path, dir) { // by another name of the same folder, perhaps
		path = filepath.Join(canonical(filepath.Dir(path)), filepath.Base(path))
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || !subpath.Within(path, dir) || rel == "." {
		return nil, "The file is outside of the session's folder, so Runnel does not read it."
	}
	if files.Secret(filepath.ToSlash(rel)) {
		return nil, "Files like this one usually hold secrets, so Runnel does not read it."
	}
	root, err := nofollow.RootInPlace(dir)
	if err != nil {
		return nil, "The session's folder cannot be opened."
	}
	defer root.Close()
	file, err := nofollow.Open(root, rel)
	if errors.Is(err, nofollow.ErrUnreadable) {
		if _, missing := root.Lstat(rel); errors.Is(missing, fs.ErrNotExist) {
			return nil, ""
		}
	}
	if err != nil {
		return nil, "Runnel does not read the file: " + err.Error() + "."
	}
	defer file.Close()
	st, err := file.Stat()
	switch {
	case err != nil:
		return nil, "The file cannot be read."
	case nofollow.Links(file, st) > 1:
		return nil, "Runnel does not read the file: it has more than one name (hard links), one of which may be elsewhere."
	}
	b, err := io.ReadAll(io.LimitReader(file, maxLocated+1))
	switch {
	case err != nil:
		return nil, "The file cannot be read."
	case len(b) > maxLocated:
		return nil, "The file is larger than 1 MiB, so Runnel does not look for the place of the change."
	case bytes.IndexByte(b, 0) >= 0:
		return nil, "The file is not text."
	}
	s := string(b)
	return &s, ""
}

// isRedacted reports whether a secret was removed from a change.
func isRedacted(ch event.Change) bool {
	has := func(s string) bool { return strings.Contains(s, redact.Marker) }
	for _, t := range []*string{ch.OldText, ch.NewText} {
		if t != nil && has(*t) {
			return true
		}
	}
	return has(ch.Path) || slices.ContainsFunc(ch.Edits, func(e event.Edit) bool { return has(e.Old) || has(e.New) }) ||
		slices.ContainsFunc(ch.Hunks, func(h event.Hunk) bool { return slices.ContainsFunc(h.Lines, has) })
}
