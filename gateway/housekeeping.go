package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// MaxChosenTitle is the maximum size of a title that a client chooses, in
// bytes.
const MaxChosenTitle = 200

// Housekeeping renames, archives and deletes the sessions of a Gateway, whether
// or not they are open. It starts no agent.
type Housekeeping struct {
	g      *Gateway
	record func(session string) error // nil: deletions are not recorded
}

// HousekeepingOf returns the housekeeping of the sessions of g.
func HousekeepingOf(g *Gateway) Housekeeping { return Housekeeping{g: g} }

// Recorded returns a Housekeeping that calls record before it deletes a session,
// once nothing else prevents the deletion. If record fails, the session stays.
func (h Housekeeping) Recorded(record func(session string) error) Housekeeping {
	h.record = record
	return h
}

// keptCare is the part of a session's stored options that is about its
// housekeeping.
type keptCare struct {
	ChosenTitle string `json:"chosenTitle,omitzero"` // title that a client chose; "": none
	Archived    bool   `json:"archived,omitzero"`
	Following   bool   `json:"following,omitzero"` // the turns that the log left open belong to a process outside of Runnel
	Copied      bool   `json:"copied,omitzero"`    // the session was copied from a conversation by the provider of the agent that stores it, not by its own

	WorktreeRemoved bool `json:"worktreeRemoved,omitzero"`

	Allowed string `json:"allowed,omitzero"` // digest of the paths that the sandbox of its last agent had in addition; see digestOf

	Uploads []string `json:"uploads,omitzero"` // ids of the uploads that its prompts have attached and that may still exist, newest last
}

// in returns the stored options with k in the place of what they have.
func (k keptCare) in(options json.RawMessage) json.RawMessage {
	changes, err := json.Marshal(map[string]any{"chosenTitle": k.ChosenTitle, "archived": k.Archived, "uploads": k.Uploads, "following": k.Following, "copied": k.Copied, "worktreeRemoved": k.WorktreeRemoved, "allowed": k.Allowed}) // withOptions keeps absent members
	if err != nil {
		return options // unreachable: all values marshal
	}
	data, err := withOptions(options, changes)
	if err != nil {
		return options // the record's options are not valid JSON
	}
	return data
}

// optionsOfCopy returns the stored options for a copy of a session. The copy is
// neither captured nor archived nor followed. It shares the original's uploads.
func optionsOfCopy(options json.RawMessage) json.RawMessage {
	k := keptOf(options)
	if k.keptCapture != (keptCapture{}) {
		options = keptCapture{}.in(options)
	}
	if k.Brokered != "" {
		options = withBrokered(options, "")
	}
	if k.Archived || k.Following || k.Copied {
		k.Archived, k.Following, k.Copied = false, false, false
		options = k.keptCare.in(options)
	}
	return options
}

// titleOf returns the title that clients see.
func titleOf(rec store.Session, k keptCare) string { return cmp.Or(k.ChosenTitle, rec.Title) }

// Rename gives a session a title, or shows the agent's title again if title is
// blank. Every stream of the session's events receives the change.
func (h Housekeeping) Rename(ctx context.Context, ref, title string) (Status, error) {
	title, err := h.checkTitle(title)
	if err != nil {
		return Status{}, err
	}
	return h.edit(ctx, ref, func(rec store.Session) (edit, error) {
		ed := edit{change: func(k *keptCare) { k.ChosenTitle = title }}
		switch {
		case keptOf(rec.Options).ChosenTitle == title:
		case title == "":
			ed.event = &event.SessionUpdated{Title: rec.Title, TitleBy: event.TitleByAgent}
		default:
			ed.event = &event.SessionUpdated{Title: title, TitleBy: event.TitleByUser}
		}
		return ed, nil
	})
}

// checkTitle returns the title as it is stored: without known secrets, and
// without spaces at both ends.
func (h Housekeeping) checkTitle(title string) (string, error) {
	if len(title) > MaxChosenTitle {
		return "", runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("title: is too long; it may have at most %d bytes", MaxChosenTitle))
	}
	title = strings.TrimSpace(title)
	if strings.ContainsFunc(title, unicode.IsControl) {
		return "", runnel.Fail(runnel.InvalidRequest, "title: must be one line without control characters")
	}
	if h.g.cfg.Filter != nil {
		if f := h.g.cfg.Filter(runnel.Options{}); f != nil {
			title = f.Text(title)
		}
	}
	return text.OneLine(title, MaxChosenTitle), nil
}

// Archive archives a session, or takes it out of the archive. An archived
// session is left out of lists and otherwise unchanged; its next turn takes it
// out of the archive. Archive fails with TURN_IN_PROGRESS while a turn runs or
// prompts are queued.
func (h Housekeeping) Archive(ctx context.Context, ref string, archived bool) (Status, error) {
	return h.edit(ctx, ref, func(rec store.Session) (edit, error) {
		if archived {
			if err := h.checkIdle(ctx, rec.ID); err != nil {
				return edit{}, err
			}
		}
		return edit{change: func(k *keptCare) { k.Archived = archived }}, nil
	})
}

// checkIdle fails with TURN_IN_PROGRESS if a turn of the session runs or waits.
func (h Housekeeping) checkIdle(ctx context.Context, id string) error {
	turn := ""
	if e := h.g.sessions.peek(id); e != nil {
		turn = e.session.Status().Turn
	}
	waiting, err := h.g.cfg.Catalogue.Queue(ctx, id)
	if err != nil {
		return storeError(err)
	}
	if turn == "" && len(waiting) == 0 {
		return nil
	}
	details := map[string]string{"sessionId": id}
	if turn != "" {
		details["turnId"] = turn
	}
	return &runnel.Error{
		Code: runnel.TurnInProgress, Message: "a turn is running or prompts are queued; wait for their end or cancel them, and archive the session then", Details: details,
	}
}

// An edit is a change of a session's record.
type edit struct {
	change func(*keptCare)
	event  *event.SessionUpdated // appended to the log first; nil: none
}

// edit changes the record of a session as f decides, and returns the session's
// status.
func (h Housekeeping) edit(ctx context.Context, ref string, f func(store.Session) (edit, error)) (Status, error) {
	id, err := h.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return Status{}, err
	}
	for edited := false; !edited; {
		if edited, err = h.editOnce(ctx, id, f); err != nil {
			return Status{}, err
		}
	}
	h.g.feed.touch(id)
	return h.g.Status(ctx, id)
}

// editOnce returns false if the session was opened meanwhile.
func (h Housekeeping) editOnce(ctx context.Context, id string, f func(store.Session) (edit, error)) (bool, error) {
	e, err := h.g.lockOpened(ctx, id)
	if err != nil {
		return false, err
	}
	if e != nil {
		defer h.g.unlock(e)
		return true, h.editOpen(ctx, e, f)
	}
	return h.g.sessions.hold(ctx, id, nil, func() error { return h.editStored(ctx, id, f) })
}

// editOpen edits an open session; e.sending is held.
func (h Housekeeping) editOpen(ctx context.Context, e *entry, f func(store.Session) (edit, error)) error {
	rec, _ := e.snapshot()
	ed, err := f(rec)
	if err != nil {
		return err
	}
	if ed.event != nil {
		if err := e.session.Retitle(ctx, ed.event.Title, ed.event.TitleBy); err != nil {
			return err
		}
	}
	e.change(func() { e.edit(ed.change) })
	return h.g.records.write(context.WithoutCancel(ctx), e)
}

// editStored edits a session that is not open and that nobody can open
// meanwhile. Its log therefore has no other writer.
func (h Housekeeping) editStored(ctx context.Context, id string, f func(store.Session) (edit, error)) error {
	rec, err := h.g.opener.record(ctx, id)
	if err != nil {
		return err
	}
	ed, err := f(rec)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if ed.event != nil {
		st, err := h.g.cfg.Log.State(ctx, id)
		if err != nil {
			return storeError(err)
		}
		ev := event.Event{Session: id, Seq: st.Head + 1, At: time.Now(), Body: *ed.event}
		if err := h.g.cfg.Log.Append(ctx, id, st.Head, ev); err != nil {
			return storeError(err)
		}
	}
	k := keptOf(rec.Options).keptCare
	ed.change(&k)
	rec.Options = k.in(rec.Options)
	if err := h.g.cfg.Catalogue.PutSession(ctx, rec); err != nil {
		return storeError(err)
	}
	return nil
}

// edit changes the part of the record that is about housekeeping; e.mu is held.
func (e *entry) edit(change func(*keptCare)) {
	k := keptOf(e.rec.Options).keptCare
	change(&k)
	e.archived = k.Archived
	e.rec.Options = k.in(e.rec.Options)
}

// noteTitle folds the title of an event into the record; e.mu is held.
func (e *entry) noteTitle(b event.SessionUpdated) {
	switch b.TitleBy {
	case event.TitleByUser:
		e.edit(func(k *keptCare) { k.ChosenTitle = b.Title })
	case event.TitleByAgent:
		e.edit(func(k *keptCare) { k.ChosenTitle = "" })
	default:
		setIf(&e.rec.Title, line(b.Title, titleBytes))
	}
}

// unarchive takes the session out of the archive, because a turn has begun;
// e.mu is held.
func (e *entry) unarchive() {
	if e.archived {
		e.edit(func(k *keptCare) { k.Archived = false })
	}
}
