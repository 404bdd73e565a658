package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/store"
)

// A Deletion is what the deletion of a session frees, and what it leaves.
type Deletion struct {
	SessionID  string `json:"sessionId"`
	FreedBytes int64  `json:"freedBytes" doc:"Approximate size of everything that is deleted: events, debug capture, uploads and images of prompts. The server returns the space to the disk a little later."`
	Captured   int64  `json:"capturedBytes,omitempty" doc:"Part of freedBytes: the debug capture."`
	Uploads    int    `json:"uploads,omitempty" doc:"Number of uploads that are deleted, because only this session has used them."`
	Pictures   int    `json:"pictures,omitempty" doc:"Number of images of prompts that are deleted, because only this session has used them."`
	Queued     int    `json:"queued,omitempty" doc:"Number of queued prompts that are deleted."`
	TurnID     string `json:"turnId,omitempty" doc:"Id of the running turn, which the deletion ends. Absent if no turn runs."`

	Worktree *DeletedWorktree `json:"worktree,omitempty" doc:"What becomes of the session's worktree. It is removed only if that loses no work and no ignored file. Absent if the session has none."`

	Transcript *Transcript `json:"transcript,omitempty" doc:"The agent's own copy of the conversation, which is not deleted, but hidden from the list of conversations and from the search. Absent if the agent has not named one."`

	uploads []string // their ids
}

// A Transcript is an agent's own copy of a conversation.
type Transcript struct {
	AgentSessionID string `json:"agentSessionId"`
	Path           string `json:"path,omitempty" doc:"Absolute path of the agent's file. Absent if the server does not know it."`
}

// Deletion returns what [Housekeeping.Delete] would free now. It changes
// nothing.
func (h Housekeeping) Deletion(ctx context.Context, ref string) (Deletion, error) {
	id, err := h.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return Deletion{}, err
	}
	d, err := h.freed(ctx, id)
	if err != nil {
		return d, err
	}
	rec, project, stays, err := h.worktreeOf(ctx, id)
	if err != nil {
		return d, err
	}
	d.Worktree = WorktreesOf(h.g).ofDeleted(ctx, rec, project, stays, removal{may: changes.LoseNothing})
	d.Transcript, err = h.transcript(ctx, id)
	return d, err
}

// Delete ends a session with everything that runs in it, and deletes its
// record, events, queue, debug capture and the uploads that only it has used.
// The agent's own transcript stays. After a crash the session is either whole
// or deleted. Delete changes nothing and fails with AGENT_ERROR if the agent's
// stored conversations cannot be read: it could not hide the session's.
func (h Housekeeping) Delete(ctx context.Context, ref string) (Deletion, error) {
	id, err := h.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return Deletion{}, err
	}
	transcript, err := h.transcript(ctx, id)
	if err != nil {
		return Deletion{}, err
	}
	d, err := h.delete(ctx, id, deleting{end: true, may: changes.LoseNothing})
	d.Transcript = transcript
	return d, err
}

// DeleteIdle is like [Housekeeping.Delete], but fails with TURN_IN_PROGRESS while
// a turn runs.
func (h Housekeeping) DeleteIdle(ctx context.Context, ref string) (Deletion, error) {
	return h.delete(ctx, ref, deleting{may: changes.LoseNothing})
}

// deleteIf deletes a session unless check fails. Nobody can open or use the
// session from the call of check to the deletion. It fails with
// TURN_IN_PROGRESS while a turn runs. Unlike Delete, it also removes a worktree
// that has no work but ignored files: nobody would ever remove that worktree.
func (h Housekeeping) deleteIf(ctx context.Context, id string, check func() error) (Deletion, error) {
	return h.delete(ctx, id, deleting{check: check, may: expiryMayLose})
}

// expiryMayLose is what the removal of a worktree may lose when a policy deletes
// the session.
const expiryMayLose = changes.LoseIgnored

// deleting says how a session is deleted.
type deleting struct {
	end   bool         // false: fails with TURN_IN_PROGRESS while a turn runs
	check func() error // see deleteIf; nil: none
	may   changes.Loss // what the removal of the worktree may lose
}

// delete deletes a session.
func (h Housekeeping) delete(ctx context.Context, ref string, how deleting) (d Deletion, err error) {
	id, err := h.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return d, err
	}
	rec, project, stays, err := h.worktreeOf(ctx, id)
	if err != nil {
		return d, err
	}
	if record := h.record; record != nil {
		done := false // a session that was opened meanwhile is deleted in a second attempt
		h.record = func(session string) (err error) {
			if !done {
				err = record(session)
				done = err == nil
			}
			return err
		}
	}
	for deleted := false; !deleted; {
		if d, err = h.freed(ctx, id); err != nil {
			return d, err
		}
		if deleted, err = h.deleteOnce(ctx, id, how.end, how.check); err != nil {
			return d, err
		}
	}
	h.g.feed.touch(id)
	d.Worktree = WorktreesOf(h.g).ofDeleted(context.WithoutCancel(ctx), rec, project, stays, removal{may: how.may, drop: true})
	h.g.pictures.remove(id)
	if err := h.g.uploads.remove(d.uploads); err != nil { // they are removed after a day
		h.g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "uploads of a deleted session not removed", slog.String("session", id), slog.String("error", err.Error()))
	}
	h.g.rules.removeOf(context.WithoutCancel(ctx), id)
	// A file that stays is removed when the server starts again.
	o := h.g.opener
	return d, errors.Join(o.unknowns.remove(id), o.captures.remove(id), o.egress.remove(id), o.denials.remove(id))
}

// worktreeOf returns the record of a session, and its project if the session has
// a worktree. stays is why the worktree cannot be removed; it does not prevent
// the deletion of the session.
func (h Housekeeping) worktreeOf(ctx context.Context, id string) (rec store.Session, project changes.Folder, stays, err error) {
	if rec, err = h.g.opener.record(ctx, id); err != nil {
		return rec, project, nil, err
	}
	if e := h.g.sessions.peek(id); e != nil {
		rec, _ = e.snapshot()
	}
	w := keptOf(rec.Options).shownWorktree()
	if w == nil {
		return rec, project, nil, nil
	}
	project, _, stays = WorktreesOf(h.g).of(ctx, id, rec.ProjectDir, w)
	return rec, project, stays, nil
}

// deleteOnce deletes a session. It returns false if the session was opened
// meanwhile.
func (h Housekeeping) deleteOnce(ctx context.Context, id string, end bool, check func() error) (bool, error) {
	g := h.g
	e, err := g.lockOpened(ctx, id)
	if err != nil {
		return false, err
	}
	if e != nil {
		defer g.unlock(e)
		if turn := e.session.Status().Turn; turn != "" && !end {
			return false, inProgress(id, turn)
		}
		if _, err := h.mayDelete(ctx, id, e, check); err != nil { // before the turn and the queue end
			return false, err
		}
		if err := g.queue.clear(ctx, e); err != nil { // so that no queued prompt starts when the turn ends
			return false, err
		}
		_ = e.session.Close()
	}
	// hold prevents other calls from opening the session while its record is
	// deleted.
	return g.sessions.hold(ctx, id, e, func() error {
		var own conversation
		var err error
		if e != nil { // its agent may have reported another conversation until its end
			g.records.retire(e)
			own, err = h.conversation(context.WithoutCancel(ctx), id, e)
		} else {
			own, err = h.mayDelete(ctx, id, e, check)
		}
		if err != nil {
			return err
		}
		h.hide(own)
		if err := g.cfg.Catalogue.DeleteSession(context.WithoutCancel(ctx), id); err != nil {
			return storeError(err)
		}
		return nil
	})
}

// A conversation is the agent's own copy of a session's conversation.
type conversation struct {
	rec     store.Session
	foreign bool // it is one of another project
}

// conversation fails if the agent's conversations cannot be read. e is nil if the
// session is not open.
func (h Housekeeping) conversation(ctx context.Context, id string, e *entry) (c conversation, err error) {
	if e != nil {
		c.rec, _ = e.snapshot()
	} else if c.rec, err = h.g.opener.record(ctx, id); err != nil {
		return c, err
	}
	c.foreign, err = h.isForeign(ctx, c.rec)
	return c, err
}

// mayDelete fails if the session has to stay. Once nothing else prevents the
// deletion, it records the deletion. e is nil if the session is not open.
func (h Housekeeping) mayDelete(ctx context.Context, id string, e *entry, check func() error) (conversation, error) {
	c, err := h.conversation(ctx, id, e)
	if err != nil {
		return c, err
	}
	if check != nil {
		if err := check(); err != nil {
			return c, err
		}
	}
	if h.record == nil {
		return c, nil
	}
	return c, h.record(id)
}

// hide hides a conversation from the list of conversations and from the search,
// unless it is one of another project.
func (h Housekeeping) hide(c conversation) {
	if p := h.g.opener.providers.Named(c.rec.CLIType); p != nil && !c.foreign {
		owner := h.g.writers.owner(p).Name()
		h.g.hidden.set(owner, c.rec.AgentSessionID, true)
		if h.g.natives != nil {
			h.g.natives.hid(owner + ":" + c.rec.AgentSessionID)
		}
	}
}

// errNotHidden is the cause of the error of a deletion that cannot hide the
// session's conversation.
var errNotHidden = errors.New("gateway: the project of the conversation is not known")

// isForeign is [importer.isForeign] with an error for the client that deletes
// the session.
func (h Housekeeping) isForeign(ctx context.Context, rec store.Session) (bool, error) {
	foreign, err := h.g.importer.isForeign(ctx, rec)
	if err == nil || ctx.Err() != nil {
		return foreign, err
	}
	name := runnel.DisplayName(h.g.opener.providers.Named(rec.CLIType))
	return false, runnel.Fail(runnel.AgentError, "the session stays: its conversation cannot be hidden from the list of conversations and from the search, because the stored conversations of "+name+" cannot be read now. Make them readable or remove them, and delete the session again.", errNotHidden, err)
}

// freed returns what the deletion of a session frees, without the transcript.
func (h Housekeeping) freed(ctx context.Context, id string) (Deletion, error) {
	g := h.g
	rec, err := g.opener.record(ctx, id)
	if err != nil {
		return Deletion{}, err
	}
	d := Deletion{SessionID: id}
	if e := g.sessions.peek(id); e != nil {
		rec, _ = e.snapshot()
		d.TurnID = e.session.Status().Turn
	}
	if sizer, ok := g.cfg.Log.(store.Sizer); ok {
		if d.FreedBytes, err = sizer.Size(ctx, id); err != nil {
			return d, storeError(err)
		}
	}
	waiting, err := g.cfg.Catalogue.Queue(ctx, id)
	if err != nil {
		return d, storeError(err)
	}
	d.Queued = len(waiting)
	k := keptOf(rec.Options)
	if c := g.opener.captures.status(id, k.keptCapture); c != nil {
		d.Captured = c.Bytes
	}
	if d.uploads, err = h.ownUploads(ctx, id, k.Uploads); err != nil {
		return d, err
	}
	sizes := g.uploads.sizes(d.uploads)
	d.Uploads = len(sizes)
	images, size := g.pictures.own(id)
	d.Pictures = images
	d.FreedBytes += d.Captured + size
	for _, size := range sizes {
		d.FreedBytes += size
	}
	return d, nil
}

// ownUploads returns those of a session's uploads that no other session has
// used.
func (h Housekeeping) ownUploads(ctx context.Context, id string, uploads []string) ([]string, error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	recs, err := h.g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Trim: Described})
	if err != nil {
		return nil, storeError(err)
	}
	for _, e := range h.g.sessions.all() { // the record may not be written yet
		rec, _ := e.snapshot()
		recs = append(recs, rec)
	}
	own := slices.Clone(uploads)
	for _, rec := range recs {
		if rec.ID == id {
			continue
		}
		others := keptOf(rec.Options).Uploads
		own = slices.DeleteFunc(own, func(id string) bool { return slices.Contains(others, id) })
	}
	return own, nil
}

// transcriptTime limits how long the search for a transcript may take.
const transcriptTime = 2 * time.Second

// transcript returns the agent's own copy of a session's conversation, or nil.
// It starts no agent.
func (h Housekeeping) transcript(ctx context.Context, id string) (*Transcript, error) {
	rec, err := h.g.opener.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if e := h.g.sessions.peek(id); e != nil {
		rec, _ = e.snapshot()
	}
	if rec.AgentSessionID == "" {
		return nil, nil
	}
	t := &Transcript{AgentSessionID: rec.AgentSessionID}
	p := h.g.opener.providers.Named(rec.CLIType)
	finder, finds := p.(runnel.Finder)
	_, inFiles := p.(runnel.Summarizer)
	if foreign, err := h.isForeign(ctx, rec); err != nil {
		return nil, err
	} else if foreign || !finds && !inFiles {
		return t, nil
	}
	searching, stop := context.WithTimeout(ctx, transcriptTime)
	defer stop()
	var c runnel.Conversation
	if finds { // a listing would read the files of all conversations, or start the agent
		c, err = finder.Find(searching, rec.AgentSessionID)
	} else {
		c, err = discover(searching, p, rec.AgentSessionID, "")
	}
	if err == nil {
		t.Path = strings.ToValidUTF8(c.File, "\ufffd")
	} else if ctx.Err() != nil {
		return nil, ctx.Err()
	} else if runnel.CodeOf(err) != runnel.SessionNotFound && !errors.Is(err, context.DeadlineExceeded) {
		h.g.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "transcript of a session not found", slog.String("session", id), slog.String("error", err.Error()))
	}
	return t, nil
}
