package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/store"
)

// A SessionWorktree is the git worktree in which a session's agent works.
type SessionWorktree struct {
	changes.Worktree
	Removed bool `json:"removed,omitempty" doc:"Whether the worktree was removed. The session can then be read, but accepts no prompts."`
}

// WorkDir returns the directory that the agent of the session works in.
func (st Status) WorkDir() string {
	if st.Worktree != nil {
		return st.Worktree.Dir
	}
	return st.ProjectDir
}

// workDir returns the directory that the agent of a session works in.
func workDir(rec store.Session) string {
	if w := keptOf(rec.Options).Worktree; w != nil {
		return w.Dir
	}
	return rec.ProjectDir
}

// shownWorktree returns the worktree of a session as clients see it.
func (k kept) shownWorktree() *SessionWorktree {
	if k.Worktree == nil {
		return nil
	}
	return &SessionWorktree{*k.Worktree, k.WorktreeRemoved}
}

// inWorktree returns opt with the directory of the session's worktree, if it
// has one. Whether the directory is trusted depends on the project.
func (k kept) inWorktree(opt runnel.Options) runnel.Options {
	if k.Worktree != nil {
		opt.Dir = k.Worktree.Dir
	}
	return opt
}

// recheckSession is recheck for the directories of a session.
func (p projects) recheckSession(rec store.Session) error {
	if err := p.recheck(rec.ProjectDir); err != nil {
		return err
	}
	return p.recheckWorktree(keptOf(rec.Options).shownWorktree())
}

// recheckStatus is recheckSession for the status of a session.
func (p projects) recheckStatus(st Status) error {
	if err := p.recheck(st.ProjectDir); err != nil {
		return err
	}
	return p.recheckWorktree(st.Worktree)
}

func (p projects) recheckWorktree(w *SessionWorktree) error {
	if w == nil {
		return nil
	}
	if _, err := os.Lstat(w.Root); w.Removed || errors.Is(err, os.ErrNotExist) {
		return inaccessible("the worktree of this session, " + w.Root + ", was removed; what was committed on its branch " + w.Branch + " is still there unless the branch was removed, too. Create a new session to continue")
	}
	return p.recheck(w.Dir)
}

// counterpart returns the folder in which the worktree of a session is a copy,
// and the folder of which it is a copy; "" if the session has none.
func counterpart(rec store.Session) (copied, original string) {
	w := keptOf(rec.Options).Worktree
	if w == nil {
		return "", ""
	}
	prefix, err := filepath.Rel(w.Root, w.Dir)
	if err != nil || prefix == "." {
		return w.Root, rec.ProjectDir
	}
	original, ok := strings.CutSuffix(rec.ProjectDir, string(filepath.Separator)+prefix)
	if !ok { // the record does not fit together
		return w.Dir, rec.ProjectDir
	}
	return w.Root, original
}

// worktreesDir returns the folder for all worktrees. It lies beside the data
// directory: agents may work neither in the data directory nor above it. It is
// outside of the projects, so nobody commits a worktree by accident.
func (o *opener) worktreesDir() string { return sandbox.Worktrees(o.cfg.DataDir) }

// A worktreeMaker makes the worktrees of new sessions.
type worktreeMaker struct {
	g   *Gateway
	ctx context.Context
}

// plan returns the worktree of a new session. It changes nothing.
func (m worktreeMaker) plan(project changes.Folder, id string) (changes.Worktree, error) {
	if m.g.cfg.DataDir == "" {
		return changes.Worktree{}, runnel.Fail(runnel.UnsupportedCapability, "worktree: this server has no data directory, beside which worktrees are made; leave it out")
	}
	short := shortID(id)
	root := filepath.Join(m.g.opener.worktreesDir(), plainName(filepath.Base(project.Dir))+"-"+short)
	return m.g.git.PlanWorktree(m.ctx, project, root, "runnel/"+short)
}

// shortID returns a part of a session's id: the beginning, which commands
// accept in place of the id, and the end, which is random.
func shortID(id string) string { return id[:13] + "-" + id[len(id)-4:] }

// plainName replaces the characters of a folder's name that need quotes in a
// shell.
func plainName(name string) string {
	const most = 40
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	return strings.TrimLeft(name[:min(len(name), most)], ".-")
}

// forNew adds a worktree to the choice of a new session, whose id it returns.
func (g *Gateway) forNew(ctx context.Context, dir string, opt runnel.Options, c Choice, k kept) (kept, string, error) {
	id := uuid.Must(uuid.NewV7()).String()
	if !c.Worktree {
		return k, id, nil
	}
	if opt.Resume != "" {
		return k, id, runnel.Fail(runnel.UnsupportedCapability, "worktree: an agent continues a conversation in the directory in which the conversation began; leave out resume or worktree")
	}
	w, err := worktreeMaker{g, ctx}.plan(g.folderOfNew(ctx, dir, opt), id)
	k.Worktree = &w
	return k, id, err
}

// folderOfNew returns the folder of a project in which a session is created.
func (g *Gateway) folderOfNew(ctx context.Context, dir string, opt runnel.Options) changes.Folder {
	enclosed := opt.Sandbox.IsOn() || g.enclosedByOpen(dir)
	return changes.Folder{Dir: dir, Trusted: g.opener.projects.trusts(dir) && !enclosed, Closed: enclosed || onlyProject(ctx) != ""}
}

// withWorktree lets a new session make its worktree before its agent starts, and
// remove it if the agent does not start.
func (g *Gateway) withWorktree(ctx context.Context, n *newSession) {
	w := keptOf(n.rec.Options).Worktree
	if w == nil {
		return
	}
	folder, made := g.folderOfNew(ctx, n.rec.ProjectDir, n.res.Options), false
	n.fill = func(ctx context.Context) error {
		if err := private.Dir(g.opener.worktreesDir()); err != nil { // another user could have created it, if the data directory is in a shared one
			return runnel.Fail(runnel.GitFailed, "the folder for worktrees cannot be used: "+err.Error(), err)
		}
		err := g.git.AddWorktree(ctx, folder, *w)
		made = err == nil
		return err
	}
	n.undo = func(ctx context.Context) {
		if made {
			g.dropUnused(ctx, folder, n.rec.ID, *w)
		}
	}
}

// dropUnused removes the worktree of a session that was not created, unless it
// has work. It logs its own errors.
func (g *Gateway) dropUnused(ctx context.Context, project changes.Folder, id string, w changes.Worktree) {
	if _, err := g.git.DropUnfinished(ctx, project, w); err != nil {
		g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "worktree of an unfinished session not removed",
			slog.String("session", id), slog.String("worktree", w.Root), slog.String("branch", w.Branch), slog.String("error", err.Error()))
	}
}

// dropUnfinished is dropUnused for a session whose creation a crash interrupted.
func (g *Gateway) dropUnfinished(ctx context.Context, rec store.Session) {
	if w := keptOf(rec.Options).Worktree; w != nil {
		g.dropUnused(ctx, changes.Folder{Dir: rec.ProjectDir}, rec.ID, *w)
	}
}

// Worktrees shows, merges and removes the worktrees of sessions. Its methods may
// be called concurrently.
type Worktrees struct{ g *Gateway }

// WorktreesOf returns the worktrees of the sessions of g.
func WorktreesOf(g *Gateway) Worktrees { return Worktrees{g} }

// Status returns the state of a session's worktree.
func (ws Worktrees) Status(ctx context.Context, ref string) (changes.WorktreeStatus, error) {
	st, err := ws.g.Status(ctx, ref)
	if err != nil {
		return changes.WorktreeStatus{}, err
	}
	project, w, err := ws.of(ctx, st.SessionID, st.ProjectDir, st.Worktree)
	if err != nil {
		return changes.WorktreeStatus{}, err
	}
	return ws.g.git.WorktreeStatus(ctx, project, w)
}

// of returns the project and the worktree of a session.
func (ws Worktrees) of(ctx context.Context, id, projectDir string, w *SessionWorktree) (changes.Folder, changes.Worktree, error) {
	if w == nil {
		return changes.Folder{}, changes.Worktree{}, runnel.Fail(runnel.GitFailed, "This session has no worktree: its agent works in the project itself. Only a new session can get one.")
	}
	if err := ws.g.opener.projects.recheck(projectDir); err != nil {
		return changes.Folder{}, changes.Worktree{}, err
	}
	enclosed := ws.g.enclosed(ctx, id, projectDir) || ws.g.enclosedByOpen(w.Root)
	trusted := ws.g.opener.projects.trusts(projectDir) && !enclosed
	return changes.Folder{Dir: projectDir, Trusted: trusted, Closed: enclosed || onlyProject(ctx) != ""}, w.Worktree, nil
}

// Merge merges the commits of a session's worktree into the branch of its
// project; see [changes.Git.MergeWorktree]. It fails with TURN_IN_PROGRESS
// while a turn runs. No turn starts meanwhile. seen is the state that the client
// has seen.
func (ws Worktrees) Merge(ctx context.Context, ref, message, seen string) (m changes.Merged, err error) {
	err = ws.alone(ctx, ref, func(_ *entry, rec store.Session) error {
		project, w, err := ws.of(ctx, rec.ID, rec.ProjectDir, keptOf(rec.Options).shownWorktree())
		if err != nil {
			return err
		}
		m, err = ws.g.git.MergeWorktree(ctx, project, w, message, seen)
		return err
	})
	return m, err
}

// Remove removes the worktree of a session, and stops the agent that works in
// it; see [changes.Git.RemoveWorktree]. It fails with TURN_IN_PROGRESS while a
// turn runs. The session then accepts no prompts. seen is the state that the
// client has seen; it may be empty if discard is false, and is not compared then.
func (ws Worktrees) Remove(ctx context.Context, ref string, discard bool, seen string) (out changes.Removed, err error) {
	if discard && seen == "" {
		return out, runnel.Fail(runnel.InvalidRequest, "seen: is missing, and discard needs it; send the value from the state of the worktree that you looked at")
	}
	err = ws.alone(ctx, ref, func(e *entry, rec store.Session) error {
		project, w, err := ws.of(ctx, rec.ID, rec.ProjectDir, keptOf(rec.Options).shownWorktree())
		if err != nil {
			return err
		}
		if err := ws.checkOthers(rec.ID, w.Root); err != nil {
			return err
		}
		if err := ws.g.git.CheckWorktreeSeen(ctx, project, w, seen); err != nil {
			return err // the agent stays
		}
		may := changes.LoseIgnored
		if discard {
			may = changes.LoseWork
		} else if err := ws.g.git.CheckLoss(ctx, project, w, may); err != nil {
			return err // the agent stays
		}
		if e != nil {
			if err := e.session.Release(ctx); err != nil {
				return err
			}
			if err := e.session.AwaitExit(ctx); err != nil { // it may still write in the worktree
				return err
			}
		}
		out, err = ws.g.git.RemoveWorktree(ctx, project, w, may, seen)
		if _, seen := os.Lstat(w.Root); err != nil && !errors.Is(seen, os.ErrNotExist) {
			return err
		}
		return cmp.Or(err, ws.noteRemoval(context.WithoutCancel(ctx), e, rec))
	})
	return out, err
}

// noteRemoval writes into the record that the worktree was removed.
func (ws Worktrees) noteRemoval(ctx context.Context, e *entry, rec store.Session) error {
	mark := func(k *keptCare) { k.WorktreeRemoved = true }
	if e != nil {
		e.change(func() { e.edit(mark) })
		return ws.g.records.write(ctx, e)
	}
	k := keptOf(rec.Options).keptCare
	mark(&k)
	rec.Options = k.in(rec.Options)
	if err := ws.g.cfg.Catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	ws.g.feed.touch(rec.ID)
	return nil
}

// alone calls f with a session while no turn of it runs or starts. The entry is
// nil if the session is not open.
func (ws Worktrees) alone(ctx context.Context, ref string, f func(*entry, store.Session) error) error {
	id, err := ws.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	for done := false; !done; {
		e, err := ws.g.lockOpened(ctx, id)
		if err != nil {
			return err
		}
		if e != nil {
			defer ws.g.unlock(e)
			if turn := e.session.Status().Turn; turn != "" {
				return inProgress(id, turn)
			}
			rec, _ := e.snapshot()
			return f(e, rec)
		}
		if done, err = ws.g.sessions.hold(ctx, id, nil, func() error {
			rec, err := ws.g.opener.record(ctx, id)
			if err != nil {
				return err
			}
			return f(nil, rec)
		}); err != nil {
			return err
		}
	}
	return nil
}

// A DeletedWorktree is what the deletion of a session does with its worktree.
type DeletedWorktree struct {
	Root   string `json:"root" doc:"Absolute path of the worktree."`
	Branch string `json:"branch" doc:"The branch that was made for the worktree."`
	Stays  bool   `json:"stays" doc:"Whether the worktree and its branch stay, because their removal would lose work or fails. git worktree remove and git branch -D remove them."`
	Why    string `json:"why,omitempty" doc:"Why they stay."`

	Uncommitted int      `json:"uncommitted,omitempty" doc:"Number of files that differ from the last commit of the worktree, or are new. Such a worktree stays."`
	Ignored     []string `json:"ignored,omitempty" doc:"Files and folders in the worktree that git ignores, such as node_modules/: at most the first 20. They are deleted if the worktree does not stay."`
	Unexamined  bool     `json:"unexamined,omitempty" doc:"true: the worktree was not examined, so it is not known what becomes of it. A preview of several sessions examines at most 50 worktrees."`
}

// maxIgnored bounds the ignored files that a DeletedWorktree lists.
const maxIgnored = 20

// keep returns d for a worktree that stays, because of err.
func (d *DeletedWorktree) keep(err error) *DeletedWorktree {
	d.Stays, d.Why = true, err.Error()
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		d.Why = e.Message
	}
	return d
}

// A removal says how the deletion of a session treats its worktree.
type removal struct {
	may  changes.Loss // what may be lost; otherwise the worktree stays
	drop bool         // false: nothing is removed
}

// ofDeleted returns what the deletion of a session does with its worktree, and
// does it if r.drop is set. The worktree stays if stays is set. ofDeleted returns
// nil if the session has no worktree.
func (ws Worktrees) ofDeleted(ctx context.Context, rec store.Session, project changes.Folder, stays error, r removal) *DeletedWorktree {
	w := keptOf(rec.Options).shownWorktree()
	if w == nil || w.Removed {
		return nil
	}
	d := &DeletedWorktree{Root: w.Root, Branch: w.Branch}
	err := stays
	if err == nil {
		err = ws.g.opener.projects.recheck(rec.ProjectDir)
	}
	if err == nil {
		if l, err := ws.g.git.Leftover(ctx, project, w.Worktree); err == nil { // otherwise the removal fails for the same reason
			d.Uncommitted, d.Ignored = l.Uncommitted, l.Ignored[:min(len(l.Ignored), maxIgnored)]
		}
		err = ws.checkOthers(rec.ID, w.Root)
	}
	if err == nil && r.drop {
		_, err = ws.g.git.RemoveWorktree(ctx, project, w.Worktree, r.may, "")
	} else if err == nil {
		err = ws.g.git.CheckLoss(ctx, project, w.Worktree, r.may)
	}
	if err != nil {
		return d.keep(err)
	}
	return d
}

// checkOthers fails if another open session than that with this id uses a folder
// in the worktree at root.
func (ws Worktrees) checkOthers(id, root string) error {
	for _, e := range ws.g.sessions.all() {
		e.mu.Lock()
		other, folders := e.rec.ID, e.folders()
		e.mu.Unlock()
		if other != id && slices.ContainsFunc(folders, func(f string) bool { return subpath.Within(f, root) }) {
			return runnel.Fail(runnel.GitFailed, "Another open session works in the worktree "+root+", or may use a folder in it. End that session, then remove the worktree.")
		}
	}
	return nil
}

// folders returns the folders that the agent of a session may use; e.mu is held.
func (e *entry) folders() []string {
	folders := append([]string{e.rec.ProjectDir, workDir(e.rec)}, e.started.AddDirs...)
	for _, a := range e.started.Allowed {
		if a.Write {
			folders = append(folders, a.Path)
		}
	}
	return folders
}

// enclosedByOpen reports whether the agent of an open session runs in a sandbox
// and can write in the folder dir.
func (g *Gateway) enclosedByOpen(dir string) bool {
	for _, e := range g.sessions.all() {
		e.mu.Lock()
		opt, folders := e.started, e.folders()
		e.mu.Unlock()
		if opt.Sandbox.IsOn() && slices.ContainsFunc(folders, func(f string) bool { return subpath.Within(f, dir) || subpath.Within(dir, f) }) {
			return true
		}
	}
	return false
}
