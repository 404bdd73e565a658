package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// A promptQueue stores prompts in the catalogue until the running turn of their
// session has ended. A session with queued prompts has at most one goroutine,
// which starts their turns. While the queue of a session is held, none of them
// starts.
type promptQueue struct {
	catalogue store.Catalogue
	log       *slog.Logger
	ctx       context.Context // context of the goroutines
	sessions  *sessions
	projects  projects
	refresh   func(context.Context, *entry)        // stops an agent whose sandbox is outdated
	renew     func(context.Context, *entry) error  // resolves the options of a session whose agent is about to start
	inUse     func(context.Context, *entry) error  // fails while another process has the conversation open
	recall    func(dir string, t *turnRules) error // reads the profile of a turn
}

const maxQueue = 50 // queued prompts of one session

// A queuedPrompt is a prompt in the form that the catalogue stores.
type queuedPrompt struct {
	Input    runnel.Input    `json:"input"`
	Settings runnel.Settings `json:"settings,omitzero"`
	Rules    turnRules       `json:"rules,omitzero"`
}

// approves names an option of the prompt that only a client with the scope
// approve may have chosen, or returns "".
func (p queuedPrompt) approves() string {
	switch {
	case p.Settings.PermissionMode == runnel.ModeAcceptEdits, p.Settings.PermissionMode == runnel.ModeBypass:
		return "permissionMode " + string(p.Settings.PermissionMode)
	case len(p.Settings.Config) > 0:
		return "config"
	case p.Rules.Persona != "" && !p.Rules.Unattended:
		return "persona " + p.Rules.Persona
	}
	return ""
}

// add appends a prompt to the session's queue; e.sending is held.
func (q *promptQueue) add(ctx context.Context, e *entry, p queuedPrompt) error {
	data, err := json.Marshal(p)
	if err != nil {
		return runnel.Fail(runnel.InvalidRequest, "the prompt cannot be stored in the queue", err)
	}
	now := time.Now().UTC()
	about := aboutPrompt(p.Input)
	waits := store.Queued{Session: e.session.ID(), Turn: p.Input.Turn, Input: data, About: about.encode(), At: now}
	if err := q.catalogue.Enqueue(ctx, waits); err != nil {
		return storeError(err)
	}
	e.change(func() { e.queued = append(slices.Clone(e.queued), QueuedPrompt{waits.Turn, about, now}) })
	q.start(e) // the turn that the prompt waits for may have ended meanwhile
	return nil
}

// clear removes all queued prompts of a session; e.sending is held.
func (q *promptQueue) clear(ctx context.Context, e *entry) error {
	waiting, err := q.catalogue.Queue(ctx, e.session.ID())
	if err != nil {
		return storeError(err)
	}
	for _, p := range waiting {
		if err := q.catalogue.Dequeue(ctx, p.Session, p.Turn); err != nil {
			return storeError(err)
		}
	}
	e.change(func() { e.queued, e.rec.QueueHeld = nil, false })
	return nil
}

// startIfWaiting calls start if the session has queued prompts that may start.
func (q *promptQueue) startIfWaiting(e *entry) {
	if rec, waiting := e.snapshot(); waiting > 0 && !rec.QueueHeld {
		q.start(e)
	}
}

// start starts the session's goroutine, which starts the turns of queued
// prompts. If the goroutine already runs, it reads the queue once more.
func (q *promptQueue) start(e *entry) {
	q.sessions.mu.Lock()
	defer q.sessions.mu.Unlock()
	if q.sessions.closing || e.draining {
		e.again = e.draining
		return
	}
	e.draining = true
	e.users++
	q.sessions.work.Go(func() { q.run(e) })
}

// run is the goroutine of a session. It ends when no turn can start before the
// next call of start.
func (q *promptQueue) run(e *entry) {
	pause := catalogueRetry
	for more := true; more; {
		retry := q.drain(q.ctx, e)
		if retry {
			select {
			case <-time.After(pause):
			case <-q.ctx.Done():
			}
			pause = min(2*pause, time.Minute)
		}
		q.sessions.mu.Lock()
		more, e.again = (e.again || retry) && !q.sessions.closing, false
		if !more {
			e.draining = false
			e.users--
		}
		q.sessions.mu.Unlock()
	}
}

// drain starts the turn of the first queued prompt if no turn runs and the
// queue is not held. The end of that turn causes another call of start. drain
// returns true if it must be called again because of an error.
func (q *promptQueue) drain(ctx context.Context, e *entry) (retry bool) {
	e.sending.Lock()
	defer e.sending.Unlock()
	if q.sessions.peek(e.rec.ID) != e {
		return false // the session is not open yet or was closed; start is called when it opens
	}
	waiting, err := q.catalogue.Queue(ctx, e.session.ID())
	for _, next := range waiting {
		held, stops := e.held()
		if held || e.session.Status().Turn != "" {
			return false
		}
		if err = q.next(ctx, e, next); err != nil {
			break
		}
		if _, now := e.held(); now != stops { // a client stopped the turn just before it began
			_ = e.session.Cancel(ctx) // fails only if the session has ended
		}
		if err = q.catalogue.Dequeue(ctx, next.Session, next.Turn); err != nil {
			break
		}
		e.change(func() { e.queued = without(e.queued, next.Turn) })
	}
	if err == nil || runnel.CodeOf(err) == runnel.TurnInProgress {
		return false
	}
	q.log.LogAttrs(ctx, slog.LevelWarn, "queued prompts not started", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	return true
}

// next starts the turn of a queued prompt. A turn that cannot start ends with
// the error, so that its client gets a result and the queue continues. If next
// returns an error, the prompt must stay in the queue; e.sending is held.
//
// It reads one prompt only: the files of all prompts of a queue together may be
// larger than the memory.
func (q *promptQueue) next(ctx context.Context, e *entry, next store.Queued) error {
	input, err := q.catalogue.QueuedInput(ctx, next.Session, next.Turn)
	if err != nil {
		return storeError(err)
	}
	var p queuedPrompt
	err = json.Unmarshal(input, &p)
	if p.Input.Turn = next.Turn; err != nil {
		err = runnel.Fail(runnel.InvalidRequest, "the prompt cannot be read; send it again", err)
	} else if err = q.send(ctx, e, p); err == nil || passing(err) {
		return err
	}
	q.log.LogAttrs(ctx, slog.LevelError, "queued prompt refused", slog.String("session", next.Session), slog.String("turn", next.Turn), slog.String("error", err.Error()))
	return e.session.FailPrompt(ctx, p.Input, err)
}

// send starts the turn of a queued prompt; e.sending is held. It checks again
// that no link has replaced the project directory. If no agent runs, it checks
// the directory itself and resolves the options again, because both may have
// changed since the prompt was queued.
func (q *promptQueue) send(ctx context.Context, e *entry, p queuedPrompt) error {
	if err := q.inUse(ctx, e); err != nil {
		return err
	}
	q.refresh(ctx, e)
	rec, _ := e.snapshot()
	if !InPlace(workDir(rec)) {
		return errMoved
	}
	if !e.session.Status().AgentAlive {
		if err := q.projects.recheckSession(rec); err != nil {
			return err
		}
		if err := q.renew(ctx, e); err != nil {
			return &unresolved{err}
		}
	}
	rec, _ = e.snapshot()
	if err := q.recall(rec.ProjectDir, &p.Rules); err != nil {
		return &unresolved{err}
	}
	return e.send(ctx, p.Input, p.Settings, p.Rules)
}

// unresolved wraps the error of options or a profile that cannot be resolved
// now, for example because of a mistake in a file.
type unresolved struct{ error }

func (u *unresolved) Unwrap() error { return u.error }

// passing reports whether err, with which the turn of a queued prompt could not
// start, may be temporary. The prompt then stays in the queue.
func passing(err error) bool {
	if _, ok := errors.AsType[*unresolved](err); ok {
		return true // the user may correct the file
	}
	switch runnel.CodeOf(err) {
	case runnel.TurnInProgress, runnel.ConversationInUse, runnel.SessionDead, runnel.StoreUnavailable, runnel.Overloaded, runnel.RateLimited, runnel.Internal:
		return true
	}
	return false
}

// recover returns the sessions that have queued prompts from the previous
// server process. It removes the prompts whose turn is in the log, because that
// turn has started.
func (q *promptQueue) recover(ctx context.Context, log runnel.Log) (sessions []string, err error) {
	all, err := q.catalogue.Queue(ctx, "")
	if err != nil {
		return nil, storeError(err)
	}
	waiting := make(map[string]bool)
	for _, p := range all {
		waiting[p.Session] = true
		begun, err := q.begun(ctx, log, p)
		if err == nil && begun {
			err = q.catalogue.Dequeue(ctx, p.Session, p.Turn)
		}
		if err != nil {
			return nil, storeError(err)
		}
	}
	return slices.Collect(maps.Keys(waiting)), nil
}

// begun reports whether the log has the turn of a queued prompt.
func (q *promptQueue) begun(ctx context.Context, log runnel.Log, p store.Queued) (bool, error) {
	places, err := q.catalogue.TurnLocations(ctx, p.Turn)
	if err != nil {
		return false, err
	}
	for _, l := range places {
		if l.Session == p.Session && l.After > 0 {
			return true, nil
		}
	}
	for ev, err := range log.Read(ctx, p.Session, 0) { // it may be the first turn, whose position is 0
		if err != nil || ev.Turn != "" {
			return ev.Turn == p.Turn, err
		}
	}
	return false, nil
}

// resume starts the turns of queued prompts in these sessions, except where the
// queue is held. It calls open to open a session.
func (q *promptQueue) resume(ctx context.Context, ids []string, open func(id string) (*entry, error)) {
	for _, id := range ids {
		if rec, err := q.catalogue.Session(ctx, id); err == nil && rec.QueueHeld {
			continue
		}
		e, err := q.sessions.acquire(ctx, id, func() (*entry, error) { return open(id) })
		if err != nil {
			q.log.LogAttrs(ctx, slog.LevelWarn, "queued prompts not resumed", slog.String("session", id), slog.String("error", err.Error()))
			continue
		}
		q.startIfWaiting(e)
		q.sessions.release(e)
	}
}
